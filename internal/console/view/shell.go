package view

// The function Problem draws the reason why a page is not current, as the first region of every page. An empty reason
// draws an empty region.
func Problem(reason string) Region { return draw("problem", "problem", reason) }

// Note draws a page that is only a text, such as an error.
func Note(text string) []Region { return []Region{draw("note", "note", text)} }

// SignInForm is the form of signing in.
type SignInForm struct {
	// Problem says why the last token was not accepted; empty for the first try.
	Problem string
	// Next is the path that opens after the user has signed in.
	Next string
	// Provider is the path that leads to an OpenID provider; it is empty if there is no provider.
	Provider string
}

// SignIn draws the form.
func SignIn(f SignInForm) []Region { return []Region{draw("sign-in", "sign-in", f)} }
