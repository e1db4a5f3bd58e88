package browser

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// shot is a page of the console that the tests look at.
type shot struct {
	// name of the picture.
	name string
	// path of the page, in the console of this user or in that of several users.
	path string
	// shows is a text that the page must have.
	shows string
}

// pagesOf returns every page, in each of its states. Earlier sentences of the test cause the states.
func (w *world) pagesOf(t *testing.T) []shot {
	t.Helper()
	config := func(pool string) string {
		return w.kubectl(t, "get", "mcp", pool, "-o", "jsonpath={.spec.configuration.name}")
	}
	return []shot{
		{"overview", "/", "Needs you"},
		{"commits", "/commits", "rolled out"},
		{"pool", "/pool/worker", "18 of 18 nodes updated"},
		{"pool-by-state", "/pool/worker?by=state", "updated"},
		{"pool-filtered", "/pool/worker?filter=node-1", "10 of 10 nodes match"},
		{"pool-halted", "/pool/edge", "Degraded"},
		{"timeline", "/pool/worker/timeline", "18 nodes done"},
		{"timeline-failed", "/pool/edge/timeline", "1 failed"},
		{"node", "/node/" + first("worker"), "Last reports"},
		{"node-failed", "/node/" + first("edge"), "app.conf"},
		{"node-drift", "/node/" + first("gpu"), "/etc/motd"},
		{"node-drain", "/node/" + first("storage"), "default/guarded"},
		{"commit", "/pool/worker/commit/" + config("worker"), "What it changes"},
		{"compare-empty", "/compare", "From"},
		{"compare", "/compare?from=pool%2Fworker&to=pool%2Fgpu", "What it changes"},
		{"compare-problem", "/compare?from=pool%2Fworker&to=pool%2Fnone", "none"},
		{"search-empty", "/search", "Search"},
		{"search", "/search?q=motd", "/etc/motd"},
		{"search-nothing", "/search?q=no-such-thing", "Nothing matches"},
		{"pause", "/pool/worker/pause", "Pause the pool"},
		{"hold", "/pool/worker/hold", "Hold the pool"},
		{"not-found", "/pool/none", "Not found"},
	}
}

// violation is a rule of axe-core that a page breaks, with the elements that break it.
type violation struct {
	ID, Help string
	Nodes    []struct {
		Target         []any
		FailureSummary string
	}
}

// axe runs axe-core in a page with the rules of WCAG 2.2 A and AA.
func (b *tab) axe() []violation {
	b.t.Helper()
	script, err := os.ReadFile("testdata/axe/axe.min.js")
	if err != nil {
		b.t.Fatal(err)
	}
	if !eval[bool](b, `"axe" in window`) {
		eval[bool](b, string(script)+"\n;true")
	}
	result := eval[string](b,
		`axe.run(document, {runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}, resultTypes: ["violations"]})
		.then((r) => JSON.stringify(r.violations))`)
	var found []violation
	if err := json.Unmarshal([]byte(result), &found); err != nil {
		b.t.Fatal(err)
	}
	return found
}

// look checks a page that the tab shows, in one size and scheme, with everything unfolded.
func (b *tab) look(name string) {
	b.t.Helper()
	eval[bool](b,
		`window.folded = Array.from(document.querySelectorAll("details:not([open])")); folded.forEach((e) => { e.open = true; }); true`)
	defer eval[bool](b, `window.folded.forEach((e) => { e.open = false; }); true`)
	for _, v := range b.axe() {
		for _, n := range v.Nodes {
			b.t.Errorf("%s: axe: %s: %v: %s", name, v.Help, n.Target, strings.ReplaceAll(n.FailureSummary, "\n", " "))
		}
	}
	if wide := eval[[]string](b,
		`innerWidth >= document.documentElement.scrollWidth ? [] : Array.from(document.querySelectorAll("body *")).filter((e) => e.getBoundingClientRect().right > innerWidth && e.closest(".scroll, pre") === null).map((e) => e.tagName + "#" + e.id + "." + e.className + " " + e.getBoundingClientRect().right)`); len(wide) > 0 {
		b.t.Errorf("%s: the page is wider than the window: %v", name, wide)
	}
}

// everyPageIsAccessible: axe-core finds nothing in light and dark, at the width of a telephone nothing is cut, and no
// page is heavy.
func (w *world) everyPageIsAccessible(t *testing.T) {
	b := w.signedIn(t, "/")
	call(b, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	for _, p := range w.pagesOf(t) {
		b.forget()
		b.visit(p.path)
		b.shows("main", p.shows)
		size := b.loaded()
		if size > mostBytes {
			t.Errorf("%s: %d bytes", p.name, size)
		}
		w.lookIn(b, p.name)
		t.Logf("%s: %d bytes", p.name, size)
	}
}

// mostBytes limits a page with its files, and the little data that these tests have.
const mostBytes = 200_000

// views are how users see a page. The last one, which has the size of one and the colours of another, is only for the
// pictures.
var views = []struct {
	name, scheme string
	width        int64
	look         bool
}{
	{"light", "light", 1280, true},
	{"dark", "dark", 1280, true},
	{"middle", "light", 800, true},
	{"middle-dark", "dark", 800, false},
	{"narrow", "light", 360, true},
	{"narrow-dark", "dark", 360, false},
}

// lookIn checks what a tab shows in each view, and keeps pictures.
func (w *world) lookIn(b *tab, name string) {
	b.t.Helper()
	for _, v := range views {
		b.resize(v.width, 900)
		b.media("screen", v.scheme)
		w.pictures.keep(b, name+"-"+v.name)
		if v.look {
			b.look(name + " " + v.name)
		}
	}
	b.resize(1280, 900)
	b.media("screen", "light")
}

// aPageOnPaperHasItsText: printed pages have no navigation and no forms, and nothing that scrolls.
func (w *world) aPageOnPaperHasItsText(t *testing.T) {
	b := w.signedIn(t, "/")
	for _, path := range []string{
		"/", "/pool/edge", "/node/" + first("gpu"),
		"/compare?from=pool%2Fworker&to=pool%2Fgpu",
	} {
		b.visit(path)
		b.resize(720, 900) // the width of a page of paper
		b.media("print", "dark")
		if seen := eval[[]string](b,
			`Array.from(document.querySelectorAll("nav, form, .skip")).filter((e) => e.checkVisibility()).map((e) => e.outerHTML.slice(0, 100))`); len(seen) > 0 {
			t.Errorf("%s: on paper are %v", path, seen)
		}
		if cut := eval[[]string](b,
			`Array.from(document.querySelectorAll("main *")).filter((e) => ["auto", "scroll", "hidden"].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1 && !e.matches(".for-readers")).map((e) => e.outerHTML.slice(0, 100))`); len(cut) > 0 {
			t.Errorf("%s: on paper is cut: %v", path, cut)
		}
		if color := eval[string](b,
			`getComputedStyle(document.documentElement).backgroundColor`); color != "rgb(255, 255, 255)" {
			t.Errorf("%s: the paper is %s", path, color)
		}
		if wide := eval[bool](b, `document.documentElement.scrollWidth > innerWidth`); wide {
			t.Errorf("%s: the page is wider than the paper", path)
		}
		w.pictures.keep(b, "print"+strings.ReplaceAll(strings.SplitN(path, "?", 2)[0], "/", "-"))
	}
}

// signingInIsAccessible: the form, also after a wrong token.
func (w *world) signingInIsAccessible(t *testing.T) {
	b := w.chromium.openAlone(t, w.shared.origin)
	b.visit("/")
	b.shows("h1", "Sign in")
	w.lookIn(b, "sign-in")
	b.visit("/")
	b.do("typing a token", chromedp.SetValue("#token", "wrong"))
	b.do("signing in", click("form button"))
	b.shows("#refusal", "does not accept this token")
	w.lookIn(b, "sign-in-refused")
	b.forgive("401")
}
