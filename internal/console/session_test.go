package console

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestATokenWorksOnce: a second use is known as such, and every other text is no token.
func TestATokenWorksOnce(t *testing.T) {
	token, text, err := NewOneTime(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"", text[1:], text + "x", strings.ToUpper(text)} {
		if valid, _ := token.Use(wrong); valid {
			t.Errorf("%q is valid", wrong)
		}
	}
	if valid, first := token.Use(text); !valid || !first {
		t.Error("the first use fails")
	}
	if valid, first := token.Use(text); !valid || first {
		t.Error("the second use is not known as such")
	}
	if len(text) < 43 {
		t.Errorf("the token has %d characters, and 256 bits need 43", len(text))
	}
}

// TestASessionEnds: at its time, when its user ends it, and when there are too many.
func TestASessionEnds(t *testing.T) {
	var closed []string
	s := &SessionStore[string]{
		Cookie: "c", TLS: true, Most: 2,
		Closed: func(name string) { closed = append(closed, name) },
	}
	open := func(name string, after time.Duration) *http.Request {
		t.Helper()
		c, err := s.Open(rand.Reader, name, noon, noon.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("the cookie is %v", c)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(&http.Cookie{Name: "c", Value: "of another console"})
		r.AddCookie(c)
		return r
	}
	a, b := open("a", time.Hour), open("b", 2*time.Hour)
	if v, ok := s.Find(a, noon); !ok || v != "a" {
		t.Error("a has no session")
	}
	c := open("c", 3*time.Hour) // the third of two
	if _, ok := s.Find(a, noon); ok {
		t.Error("a still has a session")
	}
	if _, ok := s.Find(b, noon.Add(2*time.Hour)); ok {
		t.Error("the session of b did not end at its time")
	}
	if forget := s.Close(c); forget.MaxAge >= 0 || forget.Value != "" {
		t.Errorf("the browser keeps %v", forget)
	}
	if _, ok := s.Find(c, noon); ok {
		t.Error("c signed out, and has a session")
	}
	if got := strings.Join(closed, " "); got != "a b c" {
		t.Errorf("closed: %s", got)
	}
}

// TestWhichSitesMaySend has requests as a browser and as an attacker's page send them.
func TestWhichSitesMaySend(t *testing.T) {
	o := Origin{Hosts: []string{"127.0.0.1:8710"}}
	for sentence, c := range map[string]struct {
		host, fetch, origin string
		ok                  bool
	}{
		"the console's own page":           {"127.0.0.1:8710", "same-origin", "http://127.0.0.1:8710", true},
		"an address that the user typed":   {"127.0.0.1:8710", "none", "", true},
		"a program without these headers":  {"127.0.0.1:8710", "", "", true},
		"a name for the same address":      {"evil.example:8710", "same-origin", "http://evil.example:8710", false},
		"the host without its port":        {"127.0.0.1", "", "", false},
		"another port":                     {"127.0.0.1:80", "", "", false},
		"localhost":                        {"localhost:8710", "", "", false},
		"no host":                          {"", "", "", false},
		"another site":                     {"127.0.0.1:8710", "cross-site", "", false},
		"another port of the same site":    {"127.0.0.1:8710", "same-site", "http://127.0.0.1:9000", false},
		"an old browser, another site":     {"127.0.0.1:8710", "", "https://evil.example", false},
		"a form of the console's own page": {"127.0.0.1:8710", "same-origin", "null", true},
		"a page without an origin":         {"127.0.0.1:8710", "", "null", false},
		"another scheme":                   {"127.0.0.1:8710", "", "https://127.0.0.1:8710", false},
	} {
		r := httptest.NewRequest("GET", "/events", nil)
		r.Host = c.host
		if c.fetch != "" {
			r.Header.Set("Sec-Fetch-Site", c.fetch)
		}
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if ok := o.CheckHost(r) == nil && o.CheckSite(r) == nil; ok != c.ok {
			t.Errorf("%s: allowed is %v", sentence, ok)
		}
	}
}
