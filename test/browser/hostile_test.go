package browser

import (
	"net/url"
	"strings"
	"testing"
)

// Texts that would run, load or turn something around, if a page did not escape them.
const (
	hostileMarkup = `<img src="https://evil.example/x" onerror="window.ran=1"><svg onload="window.ran=2"></svg>`
	hostileEnd    = `</pre></section></main><script>window.ran=3;alert(3)</script><style>body{display:none}</style>`
	bidi          = "\u202egnp.exe\u2066"
)

// hostileTextsRunNothing: subjects, paths, contents, reasons and queries with HTML, SVG, bidirectional controls and a
// long line are text.
func (w *world) hostileTextsRunNothing(t *testing.T) {
	w.kubectl(t, "annotate", "node", first("gpu"), "machineconfiguration.openshift.io/reason="+hostileMarkup,
		"--overwrite")
	w.run(t, w.dir, "", w.bin+"/bunsen", "pause", "pool/gpu", "--because", hostileMarkup)
	long := strings.Repeat("A", 600_000)
	commit := w.push(t, hostileMarkup+bidi, map[string]string{
		"pools/gpu/50-wrong.bu": file("/etc/"+strings.ReplaceAll(hostileMarkup, "/", "")+".conf", hostileEnd+"\n"+bidi+"\n"+long),
	})
	clean := strings.ReplaceAll(hostileMarkup, "//", "") // a path with two slashes is refused
	b := w.signedIn(t, "/pool/gpu")
	b.shows("#pool-history", commit)
	page := eval[string](b, `document.querySelector("#pool-history .row a").getAttribute("href")`)
	for _, p := range []shot{
		{"overview", "/", hostileMarkup},
		{"pool", "/pool/gpu", hostileMarkup},
		{"commit", page, hostileEnd},
		{"node", "/node/" + first("gpu"), "Last reports"},
		{"compare", "/compare?from=pool%2Fworker&to=pool%2Fgpu", hostileEnd},
		{"search for an item", "/search?q=onerror", strings.ReplaceAll(hostileMarkup, "/", "")},
		{"search", "/search?q=" + url.QueryEscape(hostileEnd), "Nothing matches " + hostileEnd},
		{"compare with markup", "/compare?from=" + url.QueryEscape(hostileMarkup) + "&to=" + url.QueryEscape(hostileEnd), strings.ReplaceAll(hostileMarkup, `"`, `\"`)},
		{"pool with markup", "/pool/" + url.PathEscape(clean), "Not found"},
		{"node with markup", "/node/" + url.PathEscape(hostileEnd), "Not found"},
		{"filter", "/pool/gpu?filter=" + url.QueryEscape(`"><script>window.ran=4</script>`), "No node matches"},
		{"no page", "/" + url.PathEscape(clean), "Not found"},
	} {
		b.forget()
		b.visit(p.path)
		b.shows("body", p.shows)
		if ran := eval[string](b,
			`String(window.ran) + document.querySelectorAll("main img, main script, main style, main iframe, [onerror], [onload]").length`); ran != "undefined0" {
			t.Errorf("%s: %s", p.name, ran)
		}
		if eval[bool](b, `/[\u202a-\u202e\u2066-\u2069]/.test(document.documentElement.textContent)`) {
			t.Errorf("%s: text is turned around", p.name)
		}
		if size := b.loaded(); size > 300_000 {
			t.Errorf("%s: %d bytes: the page has the long line", p.name, size)
		}
	}
}

// forget forgets which requests there were.
func (b *tab) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.bytes)
}

// loaded returns how many bytes the page and its files have.
func (b *tab) loaded() (sum int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.bytes {
		sum += int(r.bytes)
	}
	return sum
}
