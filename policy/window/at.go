package window

import "time"

// At says whether now is allowed. A Deny window wins over all others; where there is no Allow window at all, what no Deny
// window covers is allowed. The work is bounded, whatever the windows are.
func (s Set) At(now time.Time) State {
	if len(s.windows) == 0 {
		return State{Open: true}
	}
	w := newWalk(s, now)
	state := w.state()
	for {
		at, ok := w.step()
		if !ok {
			return state
		}
		if next := w.state(); next.Open != state.Open {
			state.Until = at.UTC()
			if !state.Open && state.Window == "" {
				state.Window = next.Window
			}
			return state
		}
	}
}

// walk goes through the times at which any window of a set opens or closes.
type walk struct {
	now time.Time
	// end of what is looked at: spans are cut there.
	end     time.Time
	windows []cursor
}

// cursor is where a walk is in one window.
type cursor struct {
	spans *spans
	// open is until when the window is open; a time that is past: it is closed.
	open time.Time
	// next span that has not begun, if there is one.
	next    span
	hasNext bool
}

func newWalk(s Set, now time.Time) *walk {
	// One nanosecond more: a change at the very end of a year is one within it.
	w := &walk{now: now, end: now.Add(longest + 1), windows: make([]cursor, len(s.windows))}
	for i := range s.windows {
		c := &w.windows[i]
		c.spans = newSpans(&s.windows[i], now, w.end)
		c.next, c.hasNext = c.spans.next()
		c.enter(now)
	}
	return w
}

// enter takes the spans that have begun.
func (c *cursor) enter(now time.Time) {
	for c.hasNext && !c.next.begin.After(now) {
		if c.next.end.After(c.open) {
			c.open = c.next.end
		}
		c.next, c.hasNext = c.spans.next()
	}
}

// step goes to the next time at which a window may open or close; false: there is none within a year.
func (w *walk) step() (time.Time, bool) {
	var at time.Time
	sooner := func(t time.Time) {
		if t.After(w.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for i := range w.windows {
		c := &w.windows[i]
		sooner(c.open)
		if c.hasNext {
			sooner(c.next.begin)
		}
	}
	if at.IsZero() || !at.Before(w.end) {
		return at, false
	}
	w.now = at
	for i := range w.windows {
		w.windows[i].enter(at)
	}
	return at, true
}

// state at the time at which the walk is.
func (w *walk) state() State {
	allow, allows := "", false
	listed := false
	for i := range w.windows {
		c := &w.windows[i]
		window := c.spans.window
		open := c.open.After(w.now)
		switch {
		case window.Deny && open:
			return State{Window: window.label()}
		case window.Deny:
		case open && !allows:
			allow, allows = window.label(), true
			fallthrough
		default:
			listed = true
		}
	}
	return State{Open: allows || !listed, Window: allow}
}
