package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
)

// Event is a row of the history of a pool.
type Event struct {
	Pool string `json:"pool"`
	// When the rollout ended, or else when it began or the controller looked at the commit.
	When time.Time `json:"when"`

	Row `json:",inline"`
}

// Events returns what happened to pools since a time, newest first. Commits without an effect, what has not begun, and
// the rollouts of pools without nodes are left out.
func Events(all []History, since time.Time) []Event {
	out := []Event{}
	quiet := []Result{ResultNoEffect, ResultSkipped, ResultPending, ResultNoNodes, ResultUnknown}
	for _, h := range all {
		for _, r := range h.Rows {
			at := cmp.Or(r.Ended, r.At)
			ofNone := r.Result == Result(v1alpha1.RolloutSuperseded) && r.Nodes == 0
			if at != nil && !at.Before(since) && !ofNone && !slices.Contains(quiet, r.Result) {
				out = append(out, Event{Pool: h.Pool, When: *at, Row: r})
			}
		}
	}
	slices.SortFunc(out, func(a, b Event) int {
		return cmp.Or(b.When.Compare(a.When), fleet.CompareNames(a.Pool, b.Pool),
			strings.Compare(a.Rendered, b.Rendered))
	})
	return out
}

// ShortOutcome is the outcome without its reason.
func (r Row) ShortOutcome() string {
	outcome, _, _ := strings.Cut(r.Outcome, ": ")
	return fleet.Brief(outcome)
}

// Alike puts events together that people read as one: the same outcome of a commit in several pools, at most a minute
// apart.
func Alike(events []Event) [][]Event {
	var out [][]Event
	for _, e := range events {
		if last := len(out) - 1; last >= 0 {
			first, before := out[last][0], out[last][len(out[last])-1]
			if first.Revision == e.Revision && first.Subject == e.Subject && before.When.Sub(e.When) < time.Minute &&
				first.ShortOutcome() == e.ShortOutcome() {
				out[last] = append(out[last], e)
				continue
			}
		}
		out = append(out, []Event{e})
	}
	return out
}

// PoolsOf returns the names of the events' pools as one text.
func PoolsOf(events []Event) string {
	var names []string
	for _, e := range events {
		names = append(names, e.Pool)
	}
	return strings.Join(names, ", ")
}

// EventsText prints a table of events since a time, which is zero for all times.
func EventsText(events []Event, since, now time.Time) string {
	if len(events) == 0 && !since.IsZero() {
		return "Nothing has happened since " + fleet.Moment(since, nil, now) + ".\n"
	}
	if len(events) == 0 {
		return "No commit has given a pool a config yet.\n"
	}
	t := terminal.Table{Head: []string{"WHEN", "POOLS", "COMMIT", "AUTHOR", "SUBJECT", "OUTCOME"}}
	for _, alike := range Alike(events) {
		e := alike[0]
		l := e.Line()
		t.Rows = append(t.Rows, []string{
			terminal.Age(e.When, now), PoolsOf(alike), terminal.Dash(l.Commit), l.Author,
			terminal.Dash(fleet.FirstLine(l.Subject)), e.ShortOutcome(),
		})
	}
	return t.String()
}
