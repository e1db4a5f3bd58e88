package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// StageState is how far one stage of a rollout is.
type StageState string

// The values of StageState.
const (
	StageDone   StageState = "done"
	StageNow    StageState = "now"
	StageLater  StageState = "later"
	StageFailed StageState = "failed"
)

// Stage is one stage of a rollout: a step of its policy, the gates after it, or all other nodes.
type Stage struct {
	Name, Detail string
	State        StageState
}

// Stages returns the course of a pool's rollout; nil for a pool whose policy has no steps.
func Stages(f *fleet.Fleet, name string) []Stage {
	v := f.PoolByName[name]
	if v == nil || len(v.Facts.Care.Pace.Steps) == 0 {
		return nil
	}
	pace, at, nodes := v.Facts.Care.Pace, v.Decision.Record.Steps, len(v.Rows)
	stopped := v.Decision.Record.Verdict != ""
	stateOf := func(step int) StageState {
		switch {
		case step < at:
			return StageDone
		case step > at:
			return StageLater
		case stopped:
			return StageFailed
		}
		return StageNow
	}
	gates, waits := gateStage(v)
	var out []Stage
	for i, s := range pace.Steps {
		stage := Stage{Name: stepName(i, s), Detail: stepDetail(i, s, nodes), State: stateOf(i)}
		now := stage.State == StageNow
		if stage.Detail = soaked(stage.Detail, s); now && v.Decision.Stage.Of > 0 {
			stage.Detail = fmt.Sprintf("%d of %s healthy", max(0, v.Decision.Stage.Healthy),
				fleet.Count(v.Decision.Stage.Want, "node"))
		}
		due := now && v.Decision.Stage.Due
		if due && gates.Name != "" {
			stage.State = StageDone
		}
		out = append(out, stage)
		if gates.Name == "" {
			continue
		}
		gate := Stage{Name: gates.Name, Detail: gates.Detail, State: stage.State}
		switch {
		case due:
			gate.State, gate.Detail = StageNow, waits
		case now:
			gate.State = StageLater
		case stage.State == StageFailed && v.Decision.Record.Gate == "":
			gate.State = StageLater
		}
		out = append(out, gate)
	}
	rest := Stage{Name: "All others", State: stateOf(len(pace.Steps))}
	if v.Counts().Updated == nodes && !stopped {
		rest.State = StageDone
	}
	rest.Detail = "at most " + fleet.Count(limit(v), "node") + " at a time"
	return append(out, rest)
}

func stepName(i int, s schedule.Step) string {
	if s.Canary {
		return "Canary"
	}
	return fmt.Sprintf("Step %d", i+1)
}

func stepDetail(i int, s schedule.Step, nodes int) string {
	if s.Selector != nil {
		return s.Selector.String()
	}
	text := fleet.Count(min(s.Size(nodes), nodes), "node")
	if i > 0 { // The size counts the nodes of the steps before.
		text += " in all"
	}
	return text
}

func soaked(detail string, s schedule.Step) string {
	if s.Soak > 0 {
		detail += ", then soaks " + fleet.Took(s.Soak)
	}
	return detail
}

// gateStage returns the gates that are asked after each step, by name, and what they wait for now. The gates of single
// nodes are part of the steps.
func gateStage(v *fleet.Pool) (s Stage, waits string) {
	var names []string
	for _, g := range v.Facts.Care.Pace.Gates {
		if g.Job != nil || g.Prometheus != nil {
			names = append(names, g.Name)
		}
	}
	if len(names) == 0 {
		return Stage{}, ""
	}
	s = Stage{Name: "Gate", Detail: strings.Join(names, ", ")}
	if len(names) > 1 {
		s.Name = "Gates"
	}
	waits = s.Detail
	for _, g := range v.Facts.Care.Gates {
		if g.Verdict != poolstate.GateOpen && g.Why != "" {
			waits = g.Name + ": " + g.Why
		}
	}
	return s, waits
}

// limit is how many nodes of a pool may be out of service.
func limit(v *fleet.Pool) int {
	if most := v.Facts.Care.Pace.MaxUnavailable; most != nil {
		n, _ := poolstate.MaxUnavailable(v.Object.Name, most, len(v.Rows)) // the controller reports an invalid limit
		return n
	}
	return v.Facts.MaxUnavailable
}

// Rule is one rule that a pool's rollouts follow.
type Rule struct{ Name, Text string }

// Rules returns the rules in force for the rollouts of a pool.
func Rules(f *fleet.Fleet, name string) []Rule {
	v := f.PoolByName[name]
	if v == nil {
		return nil
	}
	pace := v.Facts.Care.Pace
	out := []Rule{{"At a time", fleet.Count(limit(v), "node")}}
	if pace.PerZone != nil {
		out[0].Text += ", in each zone " + pace.PerZone.String()
	}
	for _, t := range pace.Together {
		out = append(out, Rule{"Shared budget", t.Policy})
	}
	if w := f.Window(v); w != nil {
		out = append(out, Rule{"Windows", w.Text(f.Now)})
	}
	if len(pace.After) > 0 {
		out = append(out, Rule{"After", "pool " + strings.Join(pace.After, ", pool ")})
	}
	if n := pace.Failures.After; n > 0 {
		verb := "Halts after"
		if pace.Failures.Action == v1alpha1.FailureRevert {
			verb = "Goes back after"
		}
		out = append(out, Rule{verb, fleet.Count(n, "failed node")})
	}
	var gates []string
	for _, g := range pace.Gates {
		gates = append(gates, g.Name)
	}
	if len(gates) > 0 {
		out = append(out, Rule{"Gates", strings.Join(gates, ", ")})
	}
	if len(pace.Policies) > 0 {
		out = append(out, Rule{"Policy", strings.Join(pace.Policies, ", ")})
	}
	return out
}

// Expected is when a rollout is done if it goes on as it went; nil if that cannot be said yet.
func Expected(f *fleet.Fleet, name string) *time.Time {
	v := f.PoolByName[name]
	if v == nil || len(v.Decision.Blocks) > 0 {
		return nil
	}
	record, counts := v.Decision.Record, v.Counts()
	done, left := counts.Updated-record.UpdatedBefore, counts.Nodes-counts.Updated
	const fewest = 2 // One node says nothing about the pace.
	if record.Verdict != "" || record.Ended != nil || record.Began.IsZero() || done < fewest || left <= 0 {
		return nil
	}
	took := f.Now.Sub(record.Began.Time)
	return fleet.TimeOrNil(f.Now.Add(took / time.Duration(done) * time.Duration(left)).Round(time.Minute))
}
