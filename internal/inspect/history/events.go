package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/safetext"
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

// OutcomeOf returns the pools of events that are alike, the first ones by name, and what happened in all of them
// together.
func OutcomeOf(alike []Event, most int) (pools, outcome string) {
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
	return fleet.Names(names, most), outcome
}

// In a table: how many pools a line names, the runes of a subject, and those of a reason below its row.
const mostPools, mostSubject, mostReason = 2, 48, 200

// EventsText prints what happened since a time, which is zero for all times: how much of each kind, and then a table
// with the reason below each row that has one.
func EventsText(events []Event, since, now time.Time) string {
	if len(events) == 0 && !since.IsZero() {
		return "Nothing has happened since " + fleet.Moment(since, nil, now) + ".\n"
	}
	if len(events) == 0 {
		return "No commit has given a pool with nodes a config yet.\n"
	}
	rows := Alike(events)
	layout := "15:04:05"
	if now.Sub(events[len(events)-1].When) > 12*time.Hour {
		layout = "2006-01-02 15:04"
	}
	t := terminal.Table{Head: []string{"WHEN (UTC)", "OUTCOME", "POOLS", "COMMIT", "SUBJECT", "AUTHOR"}}
	reasons := make([]string, len(rows))
	for i, alike := range rows {
		e := alike[0]
		l := e.Line()
		pools, outcome := OutcomeOf(alike, mostPools)
		subject := cmp.Or(e.Node, fleet.FirstLine(l.Subject))
		if e.Result == ResultRefused {
			outcome = "refused" // A refused commit is never applied in part.
		}
		if e.Node != "" {
			outcome = "changed by hand"
		}
		if e.Why != "" && !strings.Contains(outcome, e.Why) {
			reasons[i] = "  " + safetext.Short(fleet.Brief(e.Why), mostReason) + "\n"
		}
		t.Rows = append(t.Rows, []string{
			e.When.UTC().Format(layout), outcome, pools, terminal.Dash(e.ShortCommit()),
			terminal.Dash(safetext.Short(subject, mostSubject)), l.Author,
		})
	}
	var b strings.Builder
	b.WriteString(sumText(rows, since, now) + "\n\n")
	for i, line := range slices.Collect(strings.Lines(t.String())) {
		b.WriteString(line)
		if i > 0 { // The first one is the head.
			b.WriteString(reasons[i-1])
		}
	}
	if slices.ContainsFunc(rows, func(alike []Event) bool { return alike[0].wentWrong() }) {
		b.WriteString("\nWhat needs you now: bunsen status\n")
	}
	return b.String()
}

func (r Row) wentWrong() bool {
	switch r.Result {
	case Result(v1alpha1.RolloutWasHalted), Result(v1alpha1.RolloutWasReverted), ResultRefused, ResultNotRendered,
		ResultDrifted:
		return true
	}
	return false
}

// sumText says how many events of each kind there are, those that somebody should look at first.
func sumText(rows [][]Event, since, now time.Time) string {
	const ranBefore Result = "RanBefore"
	var parts []string
	for _, kind := range []struct {
		result Result
		words  string
	}{
		{Result(v1alpha1.RolloutWasHalted), "halted"},
		{Result(v1alpha1.RolloutWasReverted), "reverted"},
		{ResultRefused, "refused"},
		{ResultNotRendered, "not rendered"},
		{ResultDrifted, "changed by hand"},
		{ResultWaiting, "waiting"},
		{ResultPaused, "paused"},
		{ResultRollingOut, "rolling out"},
		{ResultHeld, "held back"},
		{Result(v1alpha1.RolloutSuperseded), "replaced"},
		{Result(v1alpha1.RolloutCompleted), "rolled out"},
		{ranBefore, "without a rollout"},
	} {
		n := 0
		for _, alike := range rows {
			result := alike[0].Result
			if alike[0].RanBefore {
				result = ranBefore
			}
			if result == kind.result {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind.words))
		}
	}
	text := fleet.Count(len(rows), "event")
	if !since.IsZero() {
		text += " since " + fleet.Moment(since, nil, now)
	}
	return text + ": " + strings.Join(parts, ", ")
}
