package view

import "github.com/bunsen-os/bunsen/internal/console/region"

// Problem draws the reason why a page is not current, as the first region of every page. An empty reason draws an empty region.
func Problem(reason string) region.Region { return draw("problem", "problem", reason) }

// Note draws a page that is only a text, such as an error.
func Note(text string) []region.Region { return []region.Region{draw("note", "note", text)} }

// SignIn draws the form for a token. problem says why the last token was not accepted; empty for the first try. next is the path that opens
// after that.
func SignIn(problem, next string) []region.Region {
	return []region.Region{draw("sign-in", "sign-in", struct{ Problem, Next string }{problem, next})}
}
