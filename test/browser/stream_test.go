package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
)

// aLostStreamIsSaid: the page says that it is not connected. When the network works again, it continues by itself with
// what changed meanwhile.
func (w *world) aLostStreamIsSaid(t *testing.T) {
	b := w.signIn(t, w.shared.origin, "/pool/gpu", w.token(t, "roamer", "bunsen-viewer"))
	b.shows("h1", "gpu")
	eval[bool](b, `window.same = true`)
	w.shared.wire.cut()
	b.shows("#connection", "Not connected")
	w.pictures.keep(b, "not-connected")
	w.kubectl(t, "label", "node", first("gpu"), "topology.kubernetes.io/zone=zone-of-the-outage", "--overwrite")
	w.shared.wire.mend()
	b.until(`!document.getElementById("connection").checkVisibility()`)
	b.shows("#map", "zone-of-the-outage")
	if !eval[bool](b, `window.same === true`) {
		t.Error("the page was loaded again")
	}
}

// theBackButtonAndDeepLinksWork: each page opens by its address, and the page to which a user goes back is live.
func (w *world) theBackButtonAndDeepLinksWork(t *testing.T) {
	b := w.signedIn(t, "/pool/worker?by=state&filter=node-1")
	b.until(`document.querySelectorAll("#map a.cell:not([hidden])").length === 10`)
	b.until(`document.querySelector("#map-controls a[aria-current]").innerText === "by state"`)
	b.do("opening a node", click("#map a.cell"))
	b.shows("h1", "node-1")
	eval[bool](b, `history.back(); true`)
	b.shows("h1", "worker")
	b.until(`location.search === "?by=state&filter=node-1" && document.querySelectorAll("#map a.cell:not([hidden])").length === 10`)
	w.isLive(b, "node-1")
	eval[bool](b, `history.forward(); true`)
	b.shows("h1", "node-1")
}

// isLive changes a node, and waits until the page of its pool shows it.
func (w *world) isLive(b *tab, node string) {
	b.t.Helper()
	w.kubectl(b.t, "cordon", node)
	b.until(fmt.Sprintf(`document.querySelector("#cell-%s").matches(".unready")`, node))
	w.kubectl(b.t, "uncordon", node)
	b.until(fmt.Sprintf(`document.querySelector("#cell-%s").matches(".updated")`, node))
}

// manyPagesStayLive: hidden pages give up their streams, because a browser opens six connections to a server. They
// continue when shown.
func (w *world) manyPagesStayLive(t *testing.T) {
	var tabs []*tab
	for range 12 {
		b := w.signedIn(t, "/pool/worker")
		b.window("minimized")
		b.until(`document.hidden`)
		tabs = append(tabs, b)
	}
	b := w.signedIn(t, "/pool/worker")
	w.isLive(b, "node-2")
	w.kubectl(t, "cordon", "node-3")
	b.until(`document.querySelector("#cell-node-3").matches(".unready")`)
	tabs[0].window("normal")
	tabs[0].until(`document.querySelector("#cell-node-3").matches(".unready")`)
	w.kubectl(t, "uncordon", "node-3")
	tabs[0].until(`document.querySelector("#cell-node-3").matches(".updated")`)
}

// window sets the state of the window of a tab.
func (b *tab) window(state browser.WindowState) {
	b.t.Helper()
	w := call(b, browser.GetWindowForTarget, browser.GetWindowForTargetParams{})
	call(b, browser.SetWindowBounds, browser.SetWindowBoundsParams{
		WindowID: w.WindowID,
		Bounds:   &browser.Bounds{WindowState: state},
	})
}

// aPageWithoutChangesStaysConnected: the page of an empty search, which is open since the begin, needed one connection
// only.
func (w *world) aPageWithoutChangesStaysConnected(t *testing.T) {
	w.quiet.mu.Lock()
	defer w.quiet.mu.Unlock()
	streams := 0
	for _, r := range w.quiet.bytes {
		if strings.Contains(r.url, "/events?") {
			streams++
		}
	}
	if streams != 1 {
		t.Errorf("the page connected %d times", streams)
	}
}

// silence opens a page whose network then carries nothing, but closes no connection.
func (w *world) silence(t *testing.T) {
	t.Helper()
	w.silent = w.signIn(t, w.shared.other, "/pool/worker", w.token(t, "sleeper", "bunsen-viewer"))
	w.silent.shows("h1", "worker")
	w.shared.otherWire.silence()
}

// aSilentStreamIsNoticed: the page says that it is not connected, and continues by itself.
func (w *world) aSilentStreamIsNoticed(t *testing.T) {
	b := w.silent
	b.t = t
	b.shows("#connection", "Not connected")
	w.shared.otherWire.mend()
	b.until(`!document.getElementById("connection").checkVisibility()`)
	w.isLive(b, "node-4")
}
