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

// Event is a row of the history of a pool, or a node of it that no longer is as its config says.
type Event struct {
	Pool string `json:"pool"`
	// Node is empty for a row of the history.
	Node string `json:"node,omitempty"`
	// When the rollout ended, or else when it began or the controller looked at the commit, or when the daemon found
	// that the node differs.
	When time.Time `json:"when"`

	Row `json:",inline"`
}

// ResultDrifted is the result of an Event about a node.
const ResultDrifted Result = "Drifted"

// Events returns what happened to pools since a time, newest first. Commits without an effect, what has not begun, and
// pools without nodes are left out.
func Events(f *fleet.Fleet, all []History, since time.Time) []Event {
	out := drifts(f, since)
	quiet := []Result{ResultNoEffect, ResultSkipped, ResultPending, ResultNoNodes, ResultUnknown}
	for _, h := range all {
		for _, r := range h.Rows {
			at := cmp.Or(r.Ended, r.At)
			if at != nil && !at.Before(since) && h.Nodes > 0 && !slices.Contains(quiet, r.Result) {
				out = append(out, Event{Pool: h.Pool, When: *at, Row: r})
			}
		}
	}
	slices.SortFunc(out, func(a, b Event) int {
		return cmp.Or(b.When.Compare(a.When), fleet.CompareNames(a.Pool, b.Pool), fleet.CompareNames(a.Node, b.Node),
			strings.Compare(a.Rendered, b.Rendered))
	})
	return out
}

// drifts are the nodes that are degraded because somebody changed them.
func drifts(f *fleet.Fleet, since time.Time) []Event {
	out := []Event{}
	for i := range f.Pools {
		for _, row := range f.PoolByName[f.Pools[i].Name].Rows {
			n := f.Node(row.Name)
			if n == nil || row.Step != fleet.StepFailed {
				continue
			}
			at, is := fleet.Drifted(n)
			if at.After(f.Now) { // A node can write any time.
				at = f.Now
			}
			if !is || at.Before(since) {
				continue
			}
			out = append(out, Event{
				Pool: row.Pool, Node: row.Name, When: at,
				Row: Row{RowOutcome: RowOutcome{
					Result: ResultDrifted, Why: row.Reason, Outcome: "differs from its config: " + row.Reason,
				}},
			})
		}
	}
	return out
}

// ShortOutcome is the outcome without its reason.
func (r Row) ShortOutcome() string {
	outcome, _, _ := strings.Cut(r.Outcome, ": ")
	if r.RanBefore {
		outcome = r.Outcome
	}
	return fleet.Brief(outcome)
}

// Alike puts events together that people read as one: what came of a commit, of a change through the API, or of a hold
// in several pools within an hour. Rollouts that ended well are alike whatever their size; others only if they say the
// same. What happened twice to one pool is told twice.
func Alike(events []Event) [][]Event {
	var out [][]Event
	for _, e := range events {
		at := slices.IndexFunc(out, func(of []Event) bool {
			first := of[0]
			return e.Node == "" && first.Node == "" && first.SameChange(e.Row) &&
				!slices.ContainsFunc(of, func(other Event) bool { return other.Pool == e.Pool }) &&
				first.When.Sub(e.When) < time.Hour && (first.ShortOutcome() == e.ShortOutcome() ||
				first.rolledOut() && e.rolledOut())
		})
		if at < 0 {
			out = append(out, []Event{e})
			continue
		}
		out[at] = append(out[at], e)
	}
	return out
}

// rolledOut reports whether the rollout ended well, and it is known when it began.
func (r Row) rolledOut() bool {
	return r.Result == Result(v1alpha1.RolloutCompleted) && !r.RanBefore && r.Began != nil && r.Ended != nil
}

// OutcomeOf returns the pools of events that are alike, and what happened in all of them together.
func OutcomeOf(alike []Event) (pools, outcome string) {
	var names []string
	sum := alike[0].RowOutcome
	for i, e := range alike {
		if names = append(names, e.Pool); i == 0 || !e.rolledOut() {
			continue
		}
		sum.Nodes, sum.UpdatedBefore = sum.Nodes+e.Nodes, sum.UpdatedBefore+e.UpdatedBefore
		if e.Began.Before(*sum.Began) {
			sum.Began = e.Began
		}
		if e.Ended.After(*sum.Ended) {
			sum.Ended = e.Ended
		}
	}
	slices.SortFunc(names, fleet.CompareNames)
	outcome = alike[0].ShortOutcome()
	switch {
	case len(alike) > 1 && alike[0].rolledOut():
		outcome = sum.text()
	case len(alike) > 1 && sum.Nodes > 0:
		outcome += ", each"
	}
	return fleet.Names(names, mostPools), outcome
}

// mostPools are named in one line.
const mostPools = 8

// EventsText prints a table of events since a time, which is zero for all times.
func EventsText(events []Event, since, now time.Time) string {
	if len(events) == 0 && !since.IsZero() {
		return "Nothing has happened since " + fleet.Moment(since, nil, now) + ".\n"
	}
	if len(events) == 0 {
		return "No commit has given a pool with nodes a config yet.\n"
	}
	t := terminal.Table{Head: []string{"WHEN (UTC)", "AGE", "POOLS", "COMMIT", "AUTHOR", "SUBJECT", "OUTCOME"}}
	for _, alike := range Alike(events) {
		e := alike[0]
		l := e.Line()
		pools, outcome := OutcomeOf(alike)
		layout := "15:04:05"
		if now.Sub(e.When) > 12*time.Hour {
			layout = "2006-01-02 15:04"
		}
		if e.Node != "" {
			outcome, _, _ = strings.Cut(fleet.Brief(e.Why), " (")
		}
		t.Rows = append(t.Rows, []string{
			e.When.UTC().Format(layout), terminal.Age(e.When, now), pools,
			terminal.Dash(e.ShortCommit()), l.Author,
			terminal.Dash(cmp.Or(e.Node, fleet.FirstLine(l.Subject))), outcome,
		})
	}
	return t.String()
}
