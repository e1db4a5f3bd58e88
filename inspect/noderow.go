package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// NodeRow is one node: what it runs, what it is at, and why it is not done.
type NodeRow struct {
	Name    string `json:"name"`
	Pool    string `json:"pool"`
	Current string `json:"current"`
	Desired string `json:"desired"`
	// State is the daemon's word. AsOf is the time of the last report where nothing newer is known; absent where State is
	// current, and where that time is not known.
	State string     `json:"state"`
	AsOf  *time.Time `json:"asOf,omitempty"`
	// Step of an update that the node is at, one of the Step* words; empty for a node that is done.
	Step string `json:"step,omitempty"`
	// Since when it is at that step; absent where that is not known.
	Since *time.Time `json:"since,omitempty"`
	// Cause and Reason say why it does not run what it should, or what else is wrong with it.
	Cause  rollout.Cause `json:"cause,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

// Words for the steps of a node.
const (
	// StepWaiting: it was told nothing yet; StepNext: it is told right now; StepTold: it has not begun.
	StepWaiting = "waiting"
	StepNext    = "next"
	StepTold    = "told"
	// StepDraining, StepApplying, StepRebooting and StepUncordoning are the work itself.
	StepDraining    = "draining"
	StepApplying    = "applying"
	StepRebooting   = "rebooting"
	StepUncordoning = "uncordoning"
	// StepFailed: its daemon reports a failure.
	StepFailed = "failed"
)

// unknown is the state of a node from which no daemon has reported.
const unknown = "Unknown"

// InFlight tells that the node is between being told a config and running it well.
func (r NodeRow) InFlight() bool {
	switch r.Step {
	case StepTold, StepDraining, StepApplying, StepRebooting, StepUncordoning:
		return true
	}
	return false
}

// row is what people read of a node.
func (v *poolView) row(n *rollout.Node, now time.Time) NodeRow {
	row := NodeRow{
		Name: n.Name, Pool: v.object.Name, Current: n.Config.Current, Desired: n.Config.Desired, State: cmp.Or(n.State, unknown),
	}
	wait, waits := v.waits[n.Name]
	row.Step, row.Since = stepOf(n, wait)
	inService := n.UpdatedTo(v.wave.Target) && n.Ready() && n.Gate == ""
	if inService {
		row.Step = ""
	}
	if notHeard(v, n, &row) {
		return row
	}
	switch {
	case inService:
	case n.Degraded():
		row.Cause, row.Reason = rollout.CauseFailed, n.Reason
		if n.Config.Desired != "" && strings.Contains(n.Reason, n.Config.Desired) { // else it is about another config, and has to say so
			row.Reason = rollout.Complaint(n.Reason)
		}
	case waits && row.Step == StepApplying && n.Reason != "": // its daemon says what else than an update
		row.Cause, row.Reason = wait.Cause, n.Reason
	case waits:
		row.Cause, row.Reason = wait.Cause, wait.Reason
	case v.lost != "" && n.Config.Desired != v.facts.Target:
		row.Cause, row.Reason = rollout.CauseInvalid, v.lost
	case n.Cordon.ByAdministrator():
		row.Cause, row.Reason = rollout.CauseCordoned, "cordoned by an administrator"
	case n.Health.Trouble != "":
		row.Cause, row.Reason = rollout.CauseNotReady, n.Health.Text(v.since(n.Health.Since))
	case n.Gate != "":
		row.Cause, row.Reason = rollout.CauseGate, "updated, and held by a gate: "+n.Gate
	case n.Step.Uncordoning:
		row.Cause, row.Reason = rollout.CauseUpdating, "being uncordoned"
	}
	return row
}

// stepOf is the step of an update that a node is at, and since when.
func stepOf(n *rollout.Node, w rollout.Waiting) (string, *time.Time) {
	switch {
	case n.Step.Draining:
		return StepDraining, known(n.Step.DrainStarted)
	case n.Degraded():
		if n.Failure.Config != n.Config.Desired { // the failure of another config, or none that is known
			return StepFailed, nil
		}
		return StepFailed, known(n.Failure.Since.Time)
	case n.Step.Rebooting:
		return StepRebooting, known(n.Health.Since)
	case n.Step.Uncordoning:
		return StepUncordoning, nil
	case w.Cause == rollout.CauseNext:
		return StepNext, nil
	case n.State == v1alpha1.StateWorking:
		return StepApplying, nil
	case n.Config.Current != n.Config.Desired:
		return StepTold, nil
	case w.Node != "":
		return StepWaiting, nil
	}
	return "", nil
}

// known is a time, or nothing.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// since says for how long, where that is known.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " for " + Age(t, now)
}

// sinceIn is since for people; where the reasons name points in time, it says since when.
func sinceIn(c Cluster, t, now time.Time) string {
	if c.Timestamps && !t.IsZero() {
		return " since " + t.UTC().Format(time.RFC3339)
	}
	return since(t, now)
}

// agoIn says how long ago something was, or when where the reasons name points in time.
func agoIn(c Cluster, t, now time.Time) string {
	if c.Timestamps && !t.IsZero() {
		return "at " + t.UTC().Format(time.RFC3339)
	}
	return Age(t, now) + " ago"
}

// count is a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// stepText says which step of the rollout is under way and how far it is; empty for a rollout without steps.
func (v *poolView) stepText() string {
	s, r, steps := v.wave.Stage, v.wave.Record, v.facts.Care.Pace.Steps
	switch {
	case s.Of == 0, r.Verdict == v1alpha1.RolloutReverted:
		return ""
	case r.Verdict != "" && r.Steps >= len(steps):
		return fmt.Sprintf("stopped after step %d of %d", s.Of, s.Of)
	case r.Verdict != "" && steps[r.Steps].Canary:
		return fmt.Sprintf("stopped in step %d of %d (canary)", r.Steps+1, s.Of)
	case r.Verdict != "":
		return fmt.Sprintf("stopped in step %d of %d", r.Steps+1, s.Of)
	}
	if s.Step >= s.Of {
		return fmt.Sprintf("all %d steps done: %d of %d nodes told, %d well", s.Of, s.Told, s.Want, max(0, s.Well))
	}
	kind := ""
	if s.Canary {
		kind = " (canary)"
	}
	return fmt.Sprintf("step %d of %d%s: %d of %d nodes told, %d well", s.Step+1, s.Of, kind, s.Told, s.Want, max(0, s.Well))
}

// began are the conditions of a MachineConfigNode that say since when a node is at a step.
var began = map[string]struct {
	kind   mcfgv1.StateProgress
	status metav1.ConditionStatus
}{
	StepApplying:    {mcfgv1.MachineConfigNodeUpdateFilesAndOS, metav1.ConditionUnknown},
	StepRebooting:   {mcfgv1.MachineConfigNodeUpdateRebooted, metav1.ConditionUnknown},
	StepUncordoning: {mcfgv1.MachineConfigNodeUpdateUncordoned, metav1.ConditionUnknown},
	StepFailed:      {mcfgv1.MachineConfigNodeNodeDegraded, metav1.ConditionTrue},
}

// Untimed tells that a node is at a step of which its MachineConfigNode may know since when, and the Node does not.
func (r NodeRow) Untimed() bool {
	_, told := began[r.Step]
	return told && r.Since == nil
}

// Began is since when a node is at a step, as its MachineConfigNode has it; nil where that is not, or not yet, there.
func Began(n *mcfgv1.MachineConfigNode, step string) *time.Time {
	b, told := began[step]
	c := meta.FindStatusCondition(n.Status.Conditions, string(b.kind))
	if !told || c == nil || c.Status != b.status {
		return nil
	}
	return known(c.LastTransitionTime.Time)
}
