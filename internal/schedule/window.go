package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Window is a recurring time.
type Window struct {
	Name string
	// Deny forbids rollouts, which the window allows otherwise.
	Deny bool
	// Schedule says when the window begins: five fields of cron, or @hourly, @daily, @weekly, @monthly, @yearly.
	Schedule string
	// Duration is in elapsed time, at least a minute and at most a year.
	Duration time.Duration
	// Zone is the IANA name of a time zone; empty is UTC.
	Zone string
	// From is when the window first has an effect; zero for no limit.
	From time.Time
	// Until is when it has no effect any more; zero for no limit.
	Until time.Time
}

// WindowState is the result of At for one time.
type WindowState struct {
	// Open: rollouts are allowed at the time.
	Open bool
	// Until is when Open changes next; zero if not within a year.
	Until time.Time
	// Window is the name, or else the schedule, of the one that decides: an open Allow window, the Deny window that
	// forbids, or the Allow window that opens at Until. It may be empty.
	Window string
}

// Windows is a compiled list of windows. The zero Set is always open.
type Windows struct{ windows []compiled }

// Len is how many windows there are.
func (s Windows) Len() int { return len(s.windows) }

// compiled is a parsed window.
type compiled struct {
	Window
	schedule schedule
	// the parts of a day that the window covers, if the clocks do not change then
	day []stretch
	// The window begins every minute, so that only From and Until end it.
	always bool
}

// stretch is a part of a day, counted from its midnight.
type stretch struct{ begin, end time.Duration }

func (w Window) label() string { return cmp.Or(w.Name, w.Schedule) }

// WindowProblem is an error in a window.
type WindowProblem struct {
	Window int
	Field  string
	// Text says what is wrong and what to write instead.
	Text string
}

// CheckWindows returns the errors of windows. Without errors, Parse succeeds.
func CheckWindows(ws []Window) []WindowProblem {
	_, problems := compile(ws)
	return problems
}

// ParseWindow parses windows. The error names every invalid window, and what to write instead.
func ParseWindow(ws []Window) (Windows, error) {
	set, problems := compile(ws)
	if len(problems) == 0 {
		return set, nil
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = fmt.Errorf("window %d (%q): %s", p.Window+1, ws[p.Window].label(), p.Text)
	}
	return Windows{}, errors.Join(errs...)
}

func compile(ws []Window) (Windows, []WindowProblem) {
	var set Windows
	var problems []WindowProblem
	for i, w := range ws {
		c, wrong := compileOne(w)
		for _, p := range wrong {
			p.Window = i
			problems = append(problems, p)
		}
		set.windows = append(set.windows, c)
	}
	if len(problems) > 0 {
		return Windows{}, problems
	}
	return set, nil
}

const (
	// for a window, and for At to search ahead
	longest = 366 * 24 * time.Hour
	// in a day, one in 15 minutes; it limits the work of At
	mostOpenings = 96
	// more than the longest pause between two openings of a valid schedule: that of February 29th, around the year 2100
	rarest = 9 * 366 * 24 * time.Hour
)

func compileOne(w Window) (compiled, []WindowProblem) {
	var problems []WindowProblem
	wrong := func(field, format string, args ...any) {
		problems = append(problems, WindowProblem{Field: field, Text: fmt.Sprintf(format, args...)})
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
		wrong("Duration", "it lasts %s, which is more than a year; write * * * * * as the schedule and bound it with "+
			"from and until", w.Duration)
	}
	if !w.From.IsZero() && !w.Until.IsZero() && !w.From.Before(w.Until) {
		wrong("Until", "until %s is not after from %s; exchange them", w.Until.UTC().Format(time.RFC3339),
			w.From.UTC().Format(time.RFC3339))
	}
	if len(problems) > 0 {
		return compiled{}, problems
	}
	c := compiled{Window: w, schedule: s, day: s.stretches(w.Duration), always: s.everyMinute()}
	if n := len(c.day); n > mostOpenings {
		wrong("Schedule", "it opens %d times a day, each time for %s; write at most %d openings, or a longer duration",
			n, w.Duration, mostOpenings)
	} else if c.neverWithinBounds() {
		wrong("Schedule", "it never opens between from %s and until %s", w.From.UTC().Format(time.RFC3339),
			w.Until.UTC().Format(time.RFC3339))
	}
	return c, problems
}

// parseSchedule parses a schedule, or returns what is wrong with it.
func parseSchedule(text string) (schedule, []string) {
	words := strings.Fields(text)
	switch {
	case len(words) == 0:
		return schedule{},
			[]string{`there is no schedule; write five fields of cron, such as "0 1 * * 6" for Saturdays at 01:00`}
	case strings.HasPrefix(words[0], "TZ=") || strings.HasPrefix(words[0], "CRON_TZ="):
		return schedule{}, []string{fmt.Sprintf("schedule %q names a time zone; write it in timeZone", text)}
	case words[0] == "@every":
		return schedule{},
			[]string{fmt.Sprintf("schedule %q counts from no particular time; write when it opens, such as \"0 */6 "+
				"* * *\"", text)}
	case strings.HasPrefix(words[0], "@"):
		if len(words) > 1 || !slices.Contains(descriptors, words[0]) {
			return schedule{}, []string{fmt.Sprintf("schedule %q is not known; there are %s", text,
				strings.Join(descriptors, ", "))}
		}
	case len(words) == 6:
		return schedule{},
			[]string{fmt.Sprintf("schedule %q has six fields; there are no seconds: write minute, hour, day of "+
				"month, month, day of week", text)}
	case len(words) != 5:
		return schedule{},
			[]string{fmt.Sprintf(
				"schedule %q has %d fields; write five: minute, hour, day of month, month, day of week", text,
				len(words))}
	default:
		if wrong := wrongFields(words); len(wrong) > 0 {
			return schedule{}, wrong
		}
	}
	spec, err := parser().Parse(strings.Join(words, " "))
	dates, ok := spec.(*cron.SpecSchedule)
	if err != nil || !ok {
		return schedule{}, []string{fmt.Sprintf("schedule %q cannot be read: %v", text, err)}
	}
	s := newSchedule(dates)
	if s.never() {
		return schedule{}, []string{fmt.Sprintf("schedule %q never opens: no such day comes in those months", text)}
	}
	return s, nil
}

// wrongFields parses each field separately, to report every invalid field.
func wrongFields(words []string) []string {
	var wrong []string
	for i, f := range fields {
		if err := f.read(i, words[i]); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s %q: %v; write %s, ranges such as 1-5, steps such as */2, or lists "+
				"of these with commas", f.name, words[i], err, f.want))
		}
	}
	return wrong
}

func newSchedule(dates *cron.SpecSchedule) schedule {
	s := schedule{dates: dates, everyHour: true}
	for hour := range 24 {
		if dates.Hour&(1<<hour) == 0 {
			s.everyHour = false
			continue
		}
		for minute := range 60 {
			if dates.Minute&(1<<minute) != 0 {
				s.minutes = append(s.minutes, hour*60+minute)
			}
		}
	}
	return s
}

func (c compiled) neverWithinBounds() bool {
	if c.always || c.From.IsZero() || c.Until.IsZero() || c.Until.Sub(c.From) > rarest {
		return false
	}
	_, ok := c.spans(c.From, c.Until).next()
	return !ok
}

// loadZone refuses "Local", because the windows of a repository must be the same on every machine.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(
			`time zone "Local" is another one on each machine; write an IANA name such as Europe/Berlin`)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known; write an IANA name such as Europe/Berlin, "+
			"America/New_York or UTC", name)
	}
	return zone, nil
}
