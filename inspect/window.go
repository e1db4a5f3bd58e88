package inspect

import (
	"cmp"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// WindowState is what the maintenance windows of a pool say now.
type WindowState struct {
	// Open: nodes may be told a config.
	Open bool `json:"open"`
	// Window that decides, by its name or schedule, and the time zone of its schedule.
	Window string `json:"window,omitempty"`
	Zone   string `json:"zone,omitempty"`
	// Changes is when they open or close next; absent: not within a year.
	Changes *time.Time `json:"changes,omitempty"`
	// OpenUntil is until when somebody has opened the pool outside of its windows.
	OpenUntil *time.Time `json:"openUntil,omitempty"`
}

// window is nil for a pool without windows.
func (f *fleet) window(v *poolView) *WindowState {
	p := v.facts.Care.Pace
	if p.Windows.Len() == 0 {
		return nil
	}
	s := p.Windows.At(f.now)
	w := &WindowState{Open: s.Open, Window: s.Window, Zone: f.zone(p.Policies, s.Window), Changes: known(s.Until)}
	if until := v.facts.Care.OpenUntil; until.After(f.now) {
		w.OpenUntil = &until
	}
	return w
}

// zone is the time zone of the window of that name in one of these policies.
func (f *fleet) zone(policies []string, label string) string {
	for i := range f.Policies {
		if !slices.Contains(policies, f.Policies[i].Name) {
			continue
		}
		for _, w := range f.Policies[i].Spec.Windows {
			if cmp.Or(w.Name, w.Schedule) == label && label != "" {
				return w.TimeZone
			}
		}
	}
	return ""
}

// Text says whether they are open, and when that changes, in the zone of the window and in UTC.
func (w WindowState) Text(now time.Time) string {
	name := ""
	if w.Window != "" {
		name = " (" + w.Window + ")"
	}
	text, change := "closed"+name, "the next opening is "
	if w.Open {
		text, change = "open"+name, "they close "
	}
	switch {
	case w.Changes != nil:
		text += "; " + change + moment(*w.Changes, location(w.Zone), now)
	case !w.Open:
		text += "; there is no opening within a year"
	}
	if w.OpenUntil != nil {
		text += "; opened by hand until " + moment(*w.OpenUntil, nil, now)
	}
	return text
}

// location of a zone; nil where it says nothing, or nothing known.
func location(zone string) *time.Location {
	if zone == "" || zone == "UTC" {
		return nil
	}
	l, err := time.LoadLocation(zone)
	if err != nil {
		return nil
	}
	return l
}

// moment is a time to come, for people: in a zone of theirs, in UTC, and how far it is.
func moment(t time.Time, zone *time.Location, now time.Time) string {
	const day, minute = "Mon ", "2006-01-02 15:04 MST"
	text := t.UTC().Format(day + minute)
	if zone != nil {
		text = t.In(zone).Format(day+minute) + " (" + t.UTC().Format(minute) + ")"
	}
	if t.After(now) {
		text += ", in " + Age(now, t)
	}
	return text
}

// openedUntil is the annotation's time, where it is still to come.
func openedUntil(annotations map[string]string, now time.Time) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, annotations[v1alpha1.OpenUntilAnnotation])
	return t, err == nil && t.After(now)
}
