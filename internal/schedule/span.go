package schedule

import (
	"slices"
	"time"
)

// span is a time from begin up to, and without, end.
type span struct {
	begin, end time.Time
	// on which the span begins by the clock
	date int64
}

const day = 24 * 60 * 60

// spans lists the times that a window covers, by their beginnings. They may overlap or touch.
type spans struct {
	window *compiled
	// of the list
	from, to time.Time
	// the first date that is not in the queue yet, and the last of the list
	today, last int64
	queue       []span
}

// spans lists the times of the window between two times.
func (c *compiled) spans(from, to time.Time) *spans {
	if c.From.After(from) {
		from = c.From
	}
	if !c.Until.IsZero() && c.Until.Before(to) {
		to = c.Until
	}
	s := &spans{window: c, from: from, to: to}
	if c.always {
		s.today = 1 // The first date is later than the last one, so that the list is empty.
		if from.Before(to) {
			s.queue = []span{{begin: from, end: to}}
		}
		return s
	}
	// One day more on each side: if the clocks skip a date, its windows begin on the next one.
	s.today = dateOf(from.Add(-c.Duration), c.schedule.zone) - 1
	s.last = dateOf(to, c.schedule.zone) + 1
	return s
}

// next returns a span cut to the bounds; false if there is none.
func (s *spans) next() (span, bool) {
	for {
		// Dates may overlap if the clocks are set back over midnight, so the queue has the spans of two more.
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

func (s *spans) add(date int64) {
	at := time.Unix(date*day, 0).UTC()
	if !s.window.schedule.on(at) {
		return
	}
	before := len(s.queue)
	if midnight := inZone(at, s.window.schedule.zone); changesNear(midnight) {
		s.queue = append(s.queue, s.window.changing(date, at)...)
	} else {
		for _, st := range s.window.day {
			s.queue = append(s.queue, span{midnight.Add(st.begin), midnight.Add(st.end), date})
		}
	}
	if before > 0 && before < len(s.queue) && s.queue[before].begin.Before(s.queue[before-1].begin) {
		slices.SortStableFunc(s.queue, func(a, b span) int { return a.begin.Compare(b.begin) })
	}
}

// changesNear reports whether the clocks change within three days of a midnight. They change by a day at most, so every
// minute occurs once on a day that is not near a change.
func changesNear(midnight time.Time) bool {
	begin, end := midnight.ZoneBounds()
	return !begin.IsZero() && midnight.Sub(begin) < 3*24*time.Hour || !end.IsZero() &&
		end.Sub(midnight) < 3*24*time.Hour
}

// changing is for a date on which the clocks may change. at is that date in UTC.
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

func dateOf(t time.Time, zone *time.Location) int64 {
	_, offset := t.In(zone).Zone()
	seconds := t.Unix() + int64(offset)
	date := seconds / day
	if seconds%day < 0 {
		date--
	}
	return date
}

// instants returns the times at which the clocks of a zone show a wall-clock time, given as if it were UTC: two if they
// are set back, or the time of the jump if they skip it.
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

// inZone is about when the clocks of a zone show a wall-clock time, given as if it were UTC.
func inZone(wall time.Time, zone *time.Location) time.Time {
	y, m, d := wall.Date()
	return time.Date(y, m, d, wall.Hour(), wall.Minute(), 0, 0, zone)
}
