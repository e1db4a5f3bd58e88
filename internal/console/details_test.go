package console

import (
	"strings"
	"testing"
)

// TestDetailPages: each page answers, and what does not exist is a page that says what lists the others.
func TestDetailPages(t *testing.T) {
	p := play(t, update{pools: []string{"worker"}})
	c := p.signIn(t)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/compare": {200, `name="from"`}, "/compare?from=pool/worker&to=pool/worker": {
			200,
			"nothing is rendered for pool worker yet",
		},
		"/compare?from=%3Cscript%3E&to=x": {200, "&lt;script&gt;"},
		"/search":                         {200, `name="q"`}, "/search?q=worker": {200, `href="/pool/worker"`},
		"/search?q=%22%3E%3Cimg+src%3Dx%3E": {200, "Nothing matches"},
		"/node/gone":                        {404, "bunsen get nodes"}, "/pool/gone/commit/abcdefab": {
			404,
			"bunsen get pools",
		}, "/pool/worker/commit/feature%2Fx@sha1:abcdefab": {404, "feature/x@sha1:abcdefab"},
	} {
		page := get(t, c, p.base+path)
		if page.status != want.status || !strings.Contains(page.body, want.text) {
			t.Errorf("%s has status %d and not %q:\n%s", path, page.status, want.text, page.body)
		}
		if strings.Contains(page.body, "<img src=x") || strings.Contains(page.body, "<script>") {
			t.Errorf("%s has an element of the query:\n%s", path, page.body)
		}
	}
}
