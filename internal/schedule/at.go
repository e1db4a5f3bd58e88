package schedule

import "time"

// At returns whether the windows allow a time. A Deny window overrides all Allow windows. Without an Allow window, all
// times outside the Deny windows are allowed. The work is limited.
func (s Windows) At(now time.Time) WindowState {
	if len(s.windows) == 0 {
		return WindowState{Open: true}
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

// walk visits the times at which any window of a set opens or closes.
type walk struct {
	now time.Time
	// of the search
	end     time.Time
	windows []cursor
}

// cursor is the position of a walk in one window.
type cursor struct {
	spans *spans
	// when the window closes; in the past if it is closed
	open time.Time
	// the next one that has not begun, if any
	next    span
	hasNext bool
}

func newWalk(s Windows, now time.Time) *walk {
	// The walk searches one nanosecond more than a year, so that it finds a change at the very end of the year.
	w := &walk{now: now, end: now.Add(longest + 1), windows: make([]cursor, len(s.windows))}
	for i := range s.windows {
		c := &w.windows[i]
		c.spans = s.windows[i].spans(now, w.end)
		c.next, c.hasNext = c.spans.next()
		c.enter(now)
	}
	return w
}

func (c *cursor) enter(now time.Time) {
	for c.hasNext && !c.next.begin.After(now) {
		if c.next.end.After(c.open) {
			c.open = c.next.end
		}
		c.next, c.hasNext = c.spans.next()
	}
}

// step moves to the next time at which a window may open or close; false if there is none within a year.
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

func (w *walk) state() WindowState {
	allow, allows := "", false
	listed := false
	for i := range w.windows {
		c := &w.windows[i]
		window := c.spans.window
		open := c.open.After(w.now)
		switch {
		case window.Deny && open:
			return WindowState{Window: window.label()}
		case window.Deny:
		case open && !allows:
			allow, allows = window.label(), true
			fallthrough
		default:
			listed = true
		}
	}
	return WindowState{Open: allows || !listed, Window: allow}
}
