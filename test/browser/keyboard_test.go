package browser

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// click clicks the first element of a selector, as a user does with a mouse.
func click(selector string) chromedp.Action[chromedp.Void] { return chromedp.Click(selector) }

// press presses keys.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(fmt.Sprintf("pressing %q", k), chromedp.KeyEvent(k))
	}
}

// focused describes the focused element: what it is, whether its outline is visible, and whether it is in the window.
type focused struct {
	Name    string
	Outline bool
	Inside  bool
}

const describeFocused = `(() => {
	const e = document.activeElement;
	if (e === null || e === document.body) return {Name: "", Outline: true, Inside: true};
	const style = getComputedStyle(e), box = e.getBoundingClientRect();
	const at = document.elementFromPoint(box.left + Math.min(box.width, innerWidth) / 2, box.top + Math.min(box.height, 20) / 2);
	return {
		Name: e.tagName.toLowerCase() + (e.id === "" ? "" : "#" + e.id) + " " + (e.getAttribute("aria-label") || e.innerText || "").trim().slice(0, 40),
		Outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
		Inside: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && at !== null && (e.contains(at) || at.contains(e)),
	};
})()`

// tabTo presses the tab key until an element of the selector has the focus. Each element on the way must show its
// focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	b.until(`document.readyState === "complete"`) // Before, the page may lack its style sheet, and so the outline.
	var way []string
	for range 200 {
		b.press(kb.Tab)
		f := eval[focused](b, describeFocused)
		if !f.Outline || !f.Inside {
			b.t.Errorf("the focus on %q is not visible: outline %t, in the window %t", f.Name, f.Outline, f.Inside)
		}
		if eval[bool](b, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			return
		}
		way = append(way, f.Name)
	}
	b.t.Fatalf("the tab key does not reach %s: %s", selector, strings.Join(way, " > "))
}

// stopName names an element that the tab key reaches. It stays the same when the page replaces the element.
const stopName = `(e) => [e.tagName, e.id || e.getAttribute("href") || e.getAttribute("aria-label") || (e.tagName === "BUTTON" ? e.innerText : ""), (e.closest("section, article, [id]") || document.body).id].join(" ")`

// theKeyboardReachesEverything: each link, field, button and scrolled region of each page is a stop of the tab key,
// which shows its focus.
func (w *world) theKeyboardReachesEverything(t *testing.T) {
	b := w.signedIn(t, "/")
	stops := func() []string {
		return eval[[]string](b,
			`Array.from(document.querySelectorAll("a[href], button, input:not([type=hidden]), summary, [tabindex='0']"))
			.filter((e) => e.checkVisibility() && e.tabIndex >= 0).map(`+stopName+`)`)
	}
	for _, p := range w.pagesOf(t) {
		b.visit(p.path)
		b.shows("main", p.shows)
		// A page that changes while the key is pressed can lose stops, or get some that a round does not come to.
		const rounds = 5
		want := stops()
		for round := 1; ; round++ {
			missed := w.missedByTab(t, b, p.name, want)
			now := stops()
			if len(missed) > 0 && !slices.Equal(now, want) && round < rounds {
				t.Logf("%s: the page has changed meanwhile, so once more", p.name)
				want = now
				continue
			}
			for _, name := range missed {
				t.Errorf("%s: the tab key does not reach %q", p.name, name)
			}
			t.Logf("%s: %d stops of the tab key", p.name, len(want))
			break
		}
	}
}

// missedByTab returns which of the stops are not reached in one round of the tab key.
func (w *world) missedByTab(t *testing.T, b *tab, page string, want []string) []string {
	t.Helper()
	reached := map[string]bool{}
	const beside = 2 // stops of the node beside the map, which appear when the focus comes to its cell
	for range len(want) + 1 + beside {
		b.press(kb.Tab)
		f := eval[focused](b, describeFocused)
		if !f.Outline || !f.Inside {
			t.Errorf("%s: the focus on %q is not visible: outline %t, in the window %t", page, f.Name, f.Outline,
				f.Inside)
		}
		reached[eval[string](b, `(`+stopName+`)(document.activeElement)`)] = true
	}
	return slices.DeleteFunc(slices.Clone(want), func(name string) bool { return reached[name] })
}

// replaceWithMore replaces each region of the page, as a live update does, once for each of its stops while this has
// the focus, by one with a link more at its beginning. It returns the stops that lose the focus.
const replaceWithMore = `(() => {
	const lost = [], name = ` + stopName + `;
	const stops = (region) => Array.from(region.querySelectorAll("a[href], button, summary, input"))
		.filter((e) => e.checkVisibility());
	const replace = (html) => htmx.swap(document.createElement("div"), html, { swapStyle: "none" });
	for (const id of Array.from(document.querySelectorAll("main [id], header [id]"), (e) => e.id)) {
		const region = document.getElementById(id);
		if (!region) continue;
		const old = region.cloneNode(true);
		old.setAttribute("hx-swap-oob", "true");
		const more = old.cloneNode(true), link = document.createElement("a");
		link.href = "/more";
		more.prepend(link);
		for (let i = 0; i < stops(region).length; i++) {
			const stop = stops(document.getElementById(id))[i];
			if (!stop) break;
			stop.focus();
			const before = name(document.activeElement), at = i + 1;
			replace(more.outerHTML);
			const now = Array.from(document.getElementById(id).querySelectorAll("a[href], button, summary, input"))
				.filter((e) => e.checkVisibility() || e.getAttribute("href") === "/more").indexOf(document.activeElement);
			if (now !== at) lost.push(id + ": " + before + ", now at " + now + " in place of " + at);
			replace(old.outerHTML);
		}
	}
	return lost;
})()`

// theFocusStaysWhenARegionIsReplaced: a live update that adds something before what has the focus does not move it.
func (w *world) theFocusStaysWhenARegionIsReplaced(t *testing.T) {
	b := w.signedIn(t, "/")
	for _, p := range w.pagesOf(t) {
		b.visit(p.path)
		b.shows("main", p.shows)
		for _, lost := range eval[[]string](b, replaceWithMore) {
			t.Errorf("%s: a live update takes the focus: %s", p.name, lost)
		}
	}
}

// theKeyboardOperatesTheConsole: from the overview to a node by links and the map, and to a search, without a mouse.
func (w *world) theKeyboardOperatesTheConsole(t *testing.T) {
	b := w.signedIn(t, "/")
	b.press(kb.Tab)
	b.until(`document.activeElement.matches(".skip")`)
	b.press(kb.Enter)
	b.until(`document.activeElement.matches("main")`)
	b.tabTo(`#pool-worker h3 a`)
	b.press(kb.Enter)
	b.shows("h1", "worker")

	b.tabTo("#map a.cell")
	at := `Array.from(document.querySelectorAll("#map a.cell")).indexOf(document.activeElement)`
	b.press(kb.ArrowRight, kb.ArrowRight)
	b.until(at + ` === 2`)
	b.press(kb.ArrowLeft)
	b.until(at + ` === 1`)
	b.resize(400, 900)    // where the zones stand one below another
	b.press(kb.ArrowDown) // the next row is the next zone
	b.until(at + ` === 7`)
	b.press(kb.ArrowUp, kb.End)
	b.until(at + ` === 17`)
	b.press(kb.Home)
	b.until(at + ` === 0`)
	if f := eval[focused](b, describeFocused); !f.Outline || !f.Inside {
		t.Errorf("the focus in the map is not visible: %+v", f)
	}
	b.resize(1280, 900)
	name := eval[string](b, `document.activeElement.getAttribute("aria-label").split(":")[0]`)
	b.press(kb.Enter)
	b.shows("h1", name)

	b.until(`document.documentElement.matches(".js")`) // the script that listens to the key
	b.press("/")
	b.until(`document.activeElement.matches("#find")`)
	b.press("motd", kb.Enter)
	b.shows("h1", "Search")
	b.shows("#search-found", "/etc/motd")
	b.tabTo("#search-found a")

	b.visit("/pool/worker")
	b.tabTo("#filter")
	b.press("zone")
	b.shows("#filter-found", "0 of 18 nodes match")
	b.press(strings.Repeat(kb.Backspace, 4), "node-1")
	b.until(`document.querySelectorAll("#map a.cell:not([hidden])").length === 10`) // 1 and 10 to 18
	b.tabTo("#map a.cell")
	b.tabTo("#pool-nodes summary")
	b.press(kb.Enter)
	b.until(`document.querySelector("#pool-nodes details").open`)
}

// aFingerReadsANodeBeforeItOpensIt: on a telephone, the first tap on a cell shows what the node does, and the second
// one opens its page.
func (w *world) aFingerReadsANodeBeforeItOpensIt(t *testing.T) {
	b := w.signedIn(t, "/")
	b.resize(400, 900)
	touch := func(enabled bool) {
		call(b, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: enabled})
	}
	touch(true)
	defer touch(false)
	b.visit("/pool/worker")
	b.until(`document.documentElement.matches(".js")`)
	const third, card = `document.querySelectorAll("#map a.cell")[2]`, `document.getElementById("pool-node-card")`
	name := eval[string](b, third+`.getAttribute("aria-label").split(":")[0]`)
	seen := card + `.checkVisibility()`
	if eval[bool](b, seen) {
		t.Error("the card of a node covers the map before a tap")
	}

	b.tap(third)
	b.until(seen + ` && ` + card + `.querySelector("h3").innerText === ` + strconv.Quote(name))
	if box := eval[float64](b, card+`.getBoundingClientRect().bottom - innerHeight`); box > 0 {
		t.Errorf("the card ends %v pixels below the window", box)
	}
	b.tap(`document.querySelector("h1")`)
	b.until(`!` + seen)

	b.tap(third)
	b.until(seen)
	b.tap(third)
	b.shows("h1", name)
}

// tap taps an element with one finger.
func (b *tab) tap(element string) {
	b.t.Helper()
	at := eval[input.TouchPoint](b, `(() => {
		const e = `+element+`;
		e.scrollIntoView({block: "center", behavior: "instant"});
		const box = e.getBoundingClientRect();
		return {x: box.left + Math.min(box.width, 20) / 2, y: box.top + box.height / 2};
	})()`)
	call(b, input.DispatchTouchEvent, input.DispatchTouchEventParams{
		Type: input.DispatchTouchEventTypeTouchStart, TouchPoints: []*input.TouchPoint{&at},
	})
	call(b, input.DispatchTouchEvent, input.DispatchTouchEventParams{
		Type: input.DispatchTouchEventTypeTouchEnd, TouchPoints: []*input.TouchPoint{},
	})
}
