package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// aUserPausesAPoolAndResumesIt by keyboard: the form asks for a reason, the page says what was done, and another page
// of the pool shows the reason without a reload until the pool continues.
func (w *world) aUserPausesAPoolAndResumesIt(t *testing.T) {
	b, other := w.signedIn(t, "/pool/worker"), w.signedIn(t, "/pool/worker")
	eval[bool](other, `window.same = true`)
	b.tabTo(`a.action[href="/pool/worker/pause"]`)
	b.press(kb.Enter)
	b.shows("h1", "Pause pool worker")
	b.shows(".command", "bunsen pause pool/worker --because TEXT")
	b.tabTo("#because")
	b.press(kb.Enter) // The browser asks for the reason.
	b.until(`document.activeElement.matches("#because:invalid")`)
	b.press("the switches <b>")
	b.tabTo("#until")
	b.press("soon", kb.Enter)
	b.shows("#until-problem", "want a time")
	b.forgive("422")
	b.until(`document.querySelector("#because").value === "the switches <b>"`)
	eval[bool](b, `document.querySelector("#until").value = ""; true`)
	b.tabTo("#until")
	b.press("2h")
	b.tabTo("#action-form button")
	b.press(kb.Enter)
	b.shows("#actions", "pool/worker is paused")
	b.until(`location.pathname === "/pool/worker"`)
	b.shows("main", "the switches <b>")
	other.shows("main", "the switches <b>")
	other.shows("#actions", "Resume…")
	b.tabTo(`a.action[href="/pool/worker/resume"]`)
	b.press(kb.Enter)
	b.shows("h1", "Resume pool worker")
	b.shows("#action-form", "the switches <b>")
	b.tabTo("#action-form button")
	b.press(kb.Enter)
	b.shows("#actions", "pool/worker continues")
	other.shows("#actions", "Pause…")
	if !eval[bool](other, `window.same === true`) {
		t.Error("the other page was loaded again")
	}
}
