package window

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Window is a time that comes again.
type Window struct {
	// Name for people; may be empty.
	Name string
	// Deny closes; else the window opens.
	Deny bool
	// Schedule is when it begins: five fields of cron, or @hourly, @daily, @weekly, @monthly, @yearly.
	Schedule string
	// Duration is how long it lasts, in elapsed time; from a minute to a year.
	Duration time.Duration
	// Zone of the schedule by its IANA name; empty: UTC.
	Zone string
	// From cuts off all of the window that lies before it; zero: nothing.
	From time.Time
	// Until cuts off all of the window that lies at or after it; zero: nothing.
	Until time.Time
}

// State is what windows say about a time.
type State struct {
	// Open tells whether the time is allowed.
	Open bool
	// Until is when Open changes next; zero: not within a year.
	Until time.Time
	// Window is the name, else the schedule, of the window that decides: where it is open, one that allows; where it is
	// closed, the one that denies, or else the one that allows at Until. Empty where none does.
	Window string
}

// Set is a compiled list of windows. The zero Set is always open.
type Set struct{ windows []compiled }

// Len is how many windows there are.
func (s Set) Len() int { return len(s.windows) }

// compiled is a window that can be read.
type compiled struct {
	Window
	schedule schedule
	// day are the times of a day without a change of the clocks at which the window is open, counted from midnight.
	day []stretch
	// always: every minute opens it, so that only From and Until close it.
	always bool
}

// stretch is a part of a day, counted from its midnight.
type stretch struct{ begin, end time.Duration }

// label is how people call the window.
func (w Window) label() string { return cmp.Or(w.Name, w.Schedule) }

// Problem is something wrong with a window.
type Problem struct {
	// Window is its place in the list.
	Window int
	// Field of Window that is wrong.
	Field string
	// Text says what is wrong and what to write instead.
	Text string
}

// Check finds what is wrong with windows; where it finds nothing, Parse compiles them.
func Check(ws []Window) []Problem {
	_, problems := compile(ws)
	return problems
}

// Parse compiles windows. Its error names every window that cannot be read, and what to write instead.
func Parse(ws []Window) (Set, error) {
	set, problems := compile(ws)
	if len(problems) == 0 {
		return set, nil
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = fmt.Errorf("window %d (%q): %s", p.Window+1, ws[p.Window].label(), p.Text)
	}
	return Set{}, errors.Join(errs...)
}

func compile(ws []Window) (Set, []Problem) {
	var set Set
	var problems []Problem
	for i, w := range ws {
		c, wrong := compileOne(w)
		for _, p := range wrong {
			p.Window = i
			problems = append(problems, p)
		}
		set.windows = append(set.windows, c)
	}
	if len(problems) > 0 {
		return Set{}, problems
	}
	return set, nil
}

const (
	// longest that a window may last, and how far At looks ahead.
	longest = 366 * 24 * time.Hour
	// mostOpenings a day keep the work of At bounded; it is one in a quarter of an hour.
	mostOpenings = 96
	// rarest is longer than any schedule that ever opens stays closed: February 29th, around 2100.
	rarest = 9 * 366 * 24 * time.Hour
)

func compileOne(w Window) (compiled, []Problem) {
	var problems []Problem
	wrong := func(field, format string, args ...any) {
		problems = append(problems, Problem{Field: field, Text: fmt.Sprintf(format, args...)})
	}
	s, texts := parseSchedule(w.Schedule)
	for _, text := range texts {
		wrong("Schedule", "%s", text)
	}
	zone, err := loadZone(w.Zone)
	if err != nil {
		wrong("Zone", "%s", err)
	}
	s.zone = zone
	switch {
	case w.Duration <= 0:
		wrong("Duration", "it lasts %s, and so never opens; write how long it stays open, such as 4h", w.Duration)
	case w.Duration < time.Minute:
		wrong("Duration", "it lasts only %s; write a minute or more, such as 4h", w.Duration)
	case w.Duration > longest:
		wrong("Duration", "it lasts %s, which is more than a year; write * * * * * as the schedule and bound it with from and until", w.Duration)
	}
	if !w.From.IsZero() && !w.Until.IsZero() && !w.From.Before(w.Until) {
		wrong("Until", "until %s is not after from %s; exchange them", w.Until.UTC().Format(time.RFC3339), w.From.UTC().Format(time.RFC3339))
	}
	if len(problems) > 0 {
		return compiled{}, problems
	}
	c := compiled{Window: w, schedule: s, day: s.stretches(w.Duration), always: s.everyMinute()}
	if n := len(c.day); n > mostOpenings {
		wrong("Schedule", "it opens %d times a day, each time for %s; write at most %d openings, or a longer duration", n, w.Duration, mostOpenings)
	} else if c.neverWithinBounds() {
		wrong("Schedule", "it never opens between from %s and until %s", w.From.UTC().Format(time.RFC3339), w.Until.UTC().Format(time.RFC3339))
	}
	return c, problems
}

// neverWithinBounds tells whether From and Until leave nothing of the window.
func (c compiled) neverWithinBounds() bool {
	if c.always || c.From.IsZero() || c.Until.IsZero() || c.Until.Sub(c.From) > rarest {
		return false
	}
	_, ok := newSpans(&c, c.From, c.Until).next()
	return !ok
}

// loadZone finds a time zone. The zone of the machine is refused: a repository means the same everywhere.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(`time zone "Local" is another one on each machine; write an IANA name such as Europe/Berlin`)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known; write an IANA name such as Europe/Berlin, America/New_York or UTC", name)
	}
	return zone, nil
}
