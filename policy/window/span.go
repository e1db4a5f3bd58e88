package window

import (
	"math"
	"slices"
	"time"
)

// span is a time from begin up to, and without, end.
type span struct {
	begin, end time.Time
	// date on which it begins by the clock.
	date int64
}

// day is a date as the number of days since 1970-01-01.
const day = 24 * 60 * 60

// spans walks through the times that a window covers, in the order in which they begin. Some may overlap or touch.
type spans struct {
	window *compiled
	// from and to bound what is of interest.
	from, to time.Time
	// today is the first date that is not in the queue yet, last the last one that can matter.
	today, last int64
	// calm is a date up to which the zone is offset seconds ahead of UTC all day long: most days need no look at its rules.
	calm, offset int64
	queue        []span
}

// newSpans walks through what lies between from and to, at least in part.
func newSpans(w *compiled, from, to time.Time) *spans {
	if w.From.After(from) {
		from = w.From
	}
	if !w.Until.IsZero() && w.Until.Before(to) {
		to = w.Until
	}
	s := &spans{window: w, from: from, to: to, calm: math.MinInt64}
	if w.always {
		s.today = 1 // beyond last
		if from.Before(to) {
			s.queue = []span{{begin: from, end: to}}
		}
		return s
	}
	// A day more on both sides: a date that the clocks skip begins on the next one.
	s.today = dateOf(from.Add(-w.Duration), w.schedule.zone) - 1
	s.last = dateOf(to, w.schedule.zone) + 1
	return s
}

// next is the next span, cut to the bounds; false: there is none.
func (s *spans) next() (span, bool) {
	for {
		// Dates may overlap where the clocks go back over midnight: look two ahead of what is given out.
		for s.today <= s.last && (len(s.queue) == 0 || s.today <= s.queue[0].date+2) {
			s.add(s.today)
			s.today++
		}
		if len(s.queue) == 0 {
			return span{}, false
		}
		sp := s.queue[0]
		s.queue = s.queue[1:]
		if sp.begin.Before(s.from) {
			sp.begin = s.from
		}
		if sp.end.After(s.to) {
			sp.end = s.to
		}
		if sp.begin.Before(sp.end) {
			return sp, true
		}
	}
}

// add queues the spans that begin on a date.
func (s *spans) add(date int64) {
	at := time.Unix(date*day, 0).UTC()
	if !s.window.schedule.on(at) {
		return
	}
	before := len(s.queue)
	if midnight, ok := s.midnight(date, at); ok {
		for _, st := range s.window.day {
			s.queue = append(s.queue, span{midnight.Add(st.begin), midnight.Add(st.end), date})
		}
	} else {
		s.queue = append(s.queue, s.window.changing(date, at)...)
	}
	if before > 0 && before < len(s.queue) && s.queue[before].begin.Before(s.queue[before-1].begin) {
		slices.SortStableFunc(s.queue, func(a, b span) int { return a.begin.Compare(b.begin) })
	}
}

// midnight is that of an ordinary date; false: the clocks change on it.
func (s *spans) midnight(date int64, at time.Time) (time.Time, bool) {
	if date <= s.calm {
		return time.Unix(date*day-s.offset, 0), true
	}
	midnight, ok := ordinary(at, s.window.schedule.zone)
	if !ok {
		return midnight, false
	}
	_, offset := midnight.Zone()
	s.offset, s.calm = int64(offset), s.last
	if _, end := midnight.ZoneBounds(); !end.IsZero() {
		s.calm = dateOf(end, s.window.schedule.zone) - 4 // clocks change by a day at most
	}
	return midnight, true
}

// changing are the spans of a date on which the clocks change, at being that date in UTC.
func (c *compiled) changing(date int64, at time.Time) []span {
	var begins []time.Time
	for _, m := range c.schedule.minutes {
		first, second, jump := instants(at.Add(time.Duration(m)*time.Minute), c.schedule.zone)
		switch {
		case c.schedule.everyHour && !jump && !second.IsZero():
			begins = append(begins, first, second)
		case !c.schedule.everyHour || !jump:
			begins = append(begins, first)
		}
	}
	slices.SortFunc(begins, time.Time.Compare)
	var out []span
	for _, b := range begins {
		if n := len(out); n > 0 && !b.After(out[n-1].end) {
			out[n-1].end = b.Add(c.Duration)
			continue
		}
		out = append(out, span{b, b.Add(c.Duration), date})
	}
	return out
}

// dateOf is the date of a time in a zone.
func dateOf(t time.Time, zone *time.Location) int64 {
	_, offset := t.In(zone).Zone()
	seconds := t.Unix() + int64(offset)
	date := seconds / day
	if seconds%day < 0 {
		date--
	}
	return date
}

// ordinary finds the midnight of a date, the argument being that date in UTC, and tells whether the 24 hours after it come
// once each, in order.
func ordinary(date time.Time, zone *time.Location) (time.Time, bool) {
	midnight := inZone(date, zone)
	_, offset := midnight.Zone()
	if midnight.Unix()+int64(offset) != date.Unix() {
		return midnight, false
	}
	begin, end := midnight.ZoneBounds()
	if !begin.IsZero() {
		_, before := begin.Add(-time.Second).Zone()
		if midnight.Sub(begin) < time.Duration(max(0, before-offset))*time.Second {
			return midnight, false
		}
	}
	if !end.IsZero() {
		_, after := end.Zone()
		if end.Sub(midnight) < 24*time.Hour+time.Duration(max(0, offset-after))*time.Second {
			return midnight, false
		}
	}
	return midnight, true
}

// instants are the times at which the clocks of a zone show a wall-clock time, given as if it were UTC: one, or two where
// they go back. Where they jump over it, first is the moment of the jump.
func instants(wall time.Time, zone *time.Location) (first, second time.Time, jump bool) {
	t := inZone(wall, zone)
	_, offset := t.Zone()
	begin, end := t.ZoneBounds()
	candidates := []int{offset}
	if !begin.IsZero() {
		_, o := begin.Add(-time.Second).Zone()
		candidates = append(candidates, o)
	}
	if !end.IsZero() {
		_, o := end.Zone()
		candidates = append(candidates, o)
	}
	var found []time.Time
	for _, o := range candidates {
		at := time.Unix(wall.Unix()-int64(o), 0).In(zone)
		if _, is := at.Zone(); is == o && !slices.ContainsFunc(found, at.Equal) {
			found = append(found, at)
		}
	}
	slices.SortFunc(found, time.Time.Compare)
	switch {
	case len(found) > 1:
		return found[0], found[1], false
	case len(found) == 1:
		return found[0], time.Time{}, false
	case t.Unix()+int64(offset) > wall.Unix():
		return begin, time.Time{}, true
	default:
		return end, time.Time{}, true
	}
}

// inZone is about when the clocks of a zone show a wall-clock time that is given as if it were UTC.
func inZone(wall time.Time, zone *time.Location) time.Time {
	y, m, d := wall.Date()
	return time.Date(y, m, d, wall.Hour(), wall.Minute(), 0, 0, zone)
}
