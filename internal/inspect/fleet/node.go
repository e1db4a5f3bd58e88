package fleet

import (
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/terminal"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// The causes that a rollout does not use, because it does not read heartbeats.
const (
	// CauseController: no controller runs, so nothing is rendered or rolled out.
	CauseController poolstate.Cause = "Controller"
	CauseSilent                     = poolstate.CauseSilent
)

// The causes that are not part of a rollout, because they occur before it or independently of it.
const (
	// CauseRender: the newest configuration of the pool cannot be rendered.
	CauseRender poolstate.Cause = "Render"
	// CauseSource: the newest commit is not on the cluster.
	CauseSource poolstate.Cause = "Source"
	// CauseConflict: the node is in several pools.
	CauseConflict poolstate.Cause = "Conflict"
	// CauseNoPool: no pool selects the node.
	CauseNoPool poolstate.Cause = "NoPool"
	// CauseDenied: the controller denied the certificate request of a machine.
	CauseDenied   poolstate.Cause = "Denied"
	CauseNoDaemon poolstate.Cause = "NoDaemon"
	CauseDrift    poolstate.Cause = "Drift"
	// CauseStale: the controller has not read the newest state of the pool.
	CauseStale poolstate.Cause = "Stale"
)

// NodeRow is one node: its configs, its step, and why it is not done.
type NodeRow struct {
	Name    string                 `json:"name"`
	Pool    string                 `json:"pool"`
	Current v1alpha1.ConfigVersion `json:"current"`
	Desired v1alpha1.ConfigVersion `json:"desired"`
	// Revision is the commit that requested Current, as far as the pool's records reach. API are the changes through
	// the API that did.
	Revision string               `json:"revision,omitempty"`
	API      []v1alpha1.APIChange `json:"api,omitempty"`
	// State is from the daemon. AsOf is the time of an outdated report; nil if it is current, or if the time is
	// unknown.
	State string     `json:"state"`
	AsOf  *time.Time `json:"asOf,omitempty"`
	// Step is one of StepWaiting to StepFailed; empty for a node that is done.
	Step string `json:"step,omitempty"`
	// Since is when the step began; nil if unknown.
	Since *time.Time `json:"since,omitempty"`
	// Cause and Reason say why the node does not run the config that it should, or what else is wrong.
	Cause  poolstate.Cause `json:"cause,omitempty"`
	Reason string          `json:"reason,omitempty"`
	// Phase is that of PoolCounts; empty for a node without a pool.
	Phase poolstate.Phase `json:"-"`
}

// Words for the steps of a node.
const (
	// StepWaiting: no config is assigned. StepNext: the controller assigns one now. StepTold: the daemon has not begun.
	StepWaiting = "waiting"
	StepNext    = "next"
	StepTold    = "told"
	// The steps of the update itself.
	StepDraining    = "draining"
	StepApplying    = "applying"
	StepRebooting   = "rebooting"
	StepUncordoning = "uncordoning"
	StepFailed      = "failed"
)

// StateUnknown is the state of a node without a report from a daemon.
const StateUnknown = "Unknown"

// InFlight reports whether the node was assigned a config that it does not run yet.
func (r NodeRow) InFlight() bool {
	switch r.Step {
	case StepTold, StepDraining, StepApplying, StepRebooting, StepUncordoning:
		return true
	}
	return false
}

// stepOf returns a node's step, and since when.
func stepOf(n *poolstate.Node, w poolstate.Waiting) (string, *time.Time) {
	switch {
	case n.Step.Draining:
		return StepDraining, TimeOrNil(n.Step.DrainStarted)
	case n.Degraded():
		if n.Failure.Version() != n.Config.Desired { // The failure is that of another config, or of an unknown config.
			return StepFailed, nil
		}
		return StepFailed, TimeOrNil(n.Failure.Since.Time)
	case n.Step.Rebooting:
		return StepRebooting, TimeOrNil(n.Health.Since)
	case n.Step.Uncordoning:
		return StepUncordoning, nil
	case w.Cause == poolstate.CauseNext:
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

// began: the conditions of a MachineConfigNode with the time at which each step began.
var began = map[string]struct {
	kind   mcfgv1.StateProgress
	status metav1.ConditionStatus
}{
	StepApplying:    {mcfgv1.MachineConfigNodeUpdateFilesAndOS, metav1.ConditionUnknown},
	StepRebooting:   {mcfgv1.MachineConfigNodeUpdateRebooted, metav1.ConditionUnknown},
	StepUncordoning: {mcfgv1.MachineConfigNodeUpdateUncordoned, metav1.ConditionUnknown},
	StepFailed:      {mcfgv1.MachineConfigNodeNodeDegraded, metav1.ConditionTrue},
}

// Untimed reports whether the time of the node's step is unknown but may be in its MachineConfigNode.
func (r NodeRow) Untimed() bool {
	_, told := began[r.Step]
	return told && r.Since == nil
}

// Began returns when a step of a node began, by its MachineConfigNode; nil if that does not say it.
func Began(n *mcfgv1.MachineConfigNode, step string) *time.Time {
	b, told := began[step]
	c := meta.FindStatusCondition(n.Status.Conditions, string(b.kind))
	if !told || c == nil || c.Status != b.status {
		return nil
	}
	return TimeOrNil(c.LastTransitionTime.Time)
}

// StateText returns the state that the daemon reported, with its age if the report is outdated.
func (r NodeRow) StateText(now time.Time) string {
	if r.AsOf == nil || r.State == StateUnknown {
		return r.State
	}
	return r.State + " (" + terminal.Age(*r.AsOf, now) + " ago)"
}

// StepText returns the step of a node, with the reason and the duration; "" for a node that is done.
func (r NodeRow) StepText(now time.Time) string {
	text := r.Step
	switch {
	case strings.HasPrefix(r.Reason, r.Step):
		text = Brief(r.Reason)
	case r.Reason != "":
		text += ": " + Brief(r.Reason)
	}
	if r.Since != nil && !strings.Contains(text, " since ") && !strings.Contains(text, " for ") {
		text += Since(*r.Since, now)
	}
	return text
}
