package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// WindowState is the current state of a pool's maintenance windows.
type WindowState struct {
	// Open is true if the controller may assign configs now.
	Open bool `json:"open"`
	// Window is the name or the schedule of the window that decides, and the time zone of its schedule.
	Window string `json:"window,omitempty"`
	Zone   string `json:"zone,omitempty"`
	// Changes is when the windows open or close next; nil if they do not within a year.
	Changes *time.Time `json:"changes,omitempty"`
	// OpenUntil is the time until which a user has opened the pool outside of its windows.
	OpenUntil *time.Time `json:"openUntil,omitempty"`
}

// Window returns the state of a pool's windows; nil for a pool without windows.
func (f *Fleet) Window(v *Pool) *WindowState {
	p := v.Facts.Care.Pace
	if p.Windows.Len() == 0 {
		return nil
	}
	s := p.Windows.At(f.Now)
	w := &WindowState{
		Open: s.Open, Window: s.Window, Zone: windowZone(f, p.Policies, s.Window),
		Changes: TimeOrNil(s.Until),
	}
	if until := v.Facts.Care.OpenUntil; until.After(f.Now) {
		w.OpenUntil = &until
	}
	return w
}

// windowZone returns the time zone of the window with the given name in one of the policies.
func windowZone(f *Fleet, policies []string, label string) string {
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

// Text returns a text that says whether the windows are open, and when they open or close next, in the zone of the
// window and in UTC.
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
		text += "; " + change + Moment(*w.Changes, location(w.Zone), now)
	case !w.Open:
		text += "; there is no opening within a year"
	}
	if w.OpenUntil != nil {
		text += "; opened by a user until " + Moment(*w.OpenUntil, nil, now)
	}
	return text
}

// location returns a time zone; nil if its name is empty or unknown.
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

// Moment returns a text with a future time in the given zone, the same time in UTC, and the duration until then.
func Moment(t time.Time, zone *time.Location, now time.Time) string {
	const day, minute = "Mon ", "2006-01-02 15:04 MST"
	text := t.UTC().Format(day + minute)
	if zone != nil {
		text = t.In(zone).Format(day+minute) + " (" + t.UTC().Format(minute) + ")"
	}
	if t.After(now) {
		text += ", in " + terminal.Age(now, t)
	}
	return text
}

// OpenedUntil returns the time in the annotation, if it is in the future.
func OpenedUntil(annotations map[string]string, now time.Time) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, annotations[v1alpha1.OpenUntilAnnotation])
	return t, err == nil && t.After(now)
}
