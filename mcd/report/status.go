package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// Phase is the daemon's phase in the update of its node.
type Phase string

// The phases; package agent has a diagram of them.
const (
	// Idle: the node has the desired config, or none is desired.
	Idle Phase = "Idle"
	// Planned: the steps to the desired config are known.
	Planned Phase = "Planned"
	// Draining: the controller drains the node.
	Draining Phase = "Draining"
	// Applying: the daemon applies the steps, or could not roll all of them back and retries that.
	Applying Phase = "Applying"
	// Rebooting: the machine reboots into the new config, or to roll back.
	Rebooting Phase = "Rebooting"
	// Checking: the steps are done, and the health check runs.
	Checking Phase = "Checking"
	// Confirming: the config is in force; the daemon reports it and requests the uncordon.
	Confirming Phase = "Confirming"
	// Drifted: the machine differs from its config in force.
	Drifted Phase = "Drifted"
	// Blocked: the update could not begin, or was stopped before its first change. Nothing has changed; the daemon
	// retries.
	Blocked Phase = "Blocked"
	// RolledBack: the update failed and the node is in the old config; the daemon retries.
	RolledBack Phase = "RolledBack"
	// Rejected: the machine failed the health check with the desired config, or went down during each attempt. A node
	// in the phase Rejected is in the old config, and the daemon does not retry.
	Rejected Phase = "Rejected"
	// Refused: a running node cannot apply the desired config.
	Refused Phase = "Refused"
)

// Transitions has the phases that may follow each phase. A phase may always stay.
var Transitions = map[Phase][]Phase{
	Idle:     {Planned, Confirming, Drifted, Blocked, Rejected, Refused},
	Planned:  {Idle, Draining, Applying, Confirming, Blocked, Rejected, Refused},
	Draining: {Planned, Applying, Confirming, Blocked, Rejected, Refused},
	Applying: {Checking, Confirming, Planned, Rebooting, Blocked, RolledBack, Rejected, Refused},
	// Applying: the rollback failed. Rebooting follows Checking for a rollback.
	Rebooting:  {Applying, Checking, Confirming, Planned, Blocked, RolledBack, Rejected, Refused},
	Checking:   {Applying, Confirming, Planned, Rebooting, Blocked, RolledBack, Rejected, Refused},
	Confirming: {Idle, Planned, Drifted, Blocked, Rejected, Refused},
	Drifted:    {Confirming, Planned, Blocked, Rejected, Refused},
	Blocked:    {Idle, Planned, Confirming, Drifted, Rejected, Refused},
	RolledBack: {Planned, Confirming, Drifted, Blocked, Rejected, Refused, Idle},
	Rejected:   {Planned, Confirming, Drifted, Blocked, Refused, Idle},
	Refused:    {Planned, Confirming, Drifted, Blocked, Rejected, Idle},
}

// Progress has the present phase. Only the method Enter changes the phase. The zero value stands for a daemon that has
// just started. Any phase may follow it, because an earlier process may have left an update in any phase.
type Progress struct{ phase Phase }

// Phase returns the present phase; Idle before the first phase.
func (p *Progress) Phase() Phase { return cmp.Or(p.phase, Idle) }

// Enter changes the phase. The error says that Transitions does not have this change, which is a bug. The phase changes
// even then, because an update must not stop because of such a bug.
func (p *Progress) Enter(next Phase) error {
	from := p.phase
	p.phase = next
	if from != "" && from != next && !slices.Contains(Transitions[from], next) {
		return fmt.Errorf("illegal transition from phase %s to %s", from, next)
	}
	return nil
}

// Status is the daemon's progress in the update of its node. After a restart, the daemon determines it again: from the
// Node, the journal, the record of the config in force and the rejection.
type Status struct {
	// NodeName is the name of the Node.
	NodeName string
	// Phase of the daemon.
	Phase Phase
	// Node has the last read annotations, with the changes that the daemon is about to report.
	Node Node
	// InForce is true if the desired config is in force.
	InForce bool
	// Planned is true if the machine can apply the desired config. Drains and Reboots are true if the update needs a
	// drain or a reboot.
	Planned, Drains, Reboots bool
	// RollingBack is true while the machine returns to the config that it had before the update.
	RollingBack bool
	// Refusals say why a running node cannot apply the desired config; empty in phases other than Refused.
	Refusals []disruption.Refusal
}

// isDegraded reports whether the Node is Degraded or Unreconcilable.
func (s Status) isDegraded() bool {
	return s.Node.State == v1alpha1.StateDegraded || s.Node.State == v1alpha1.StateUnreconcilable
}

// isUpdated reports whether the node has its desired config and has reported that to the cluster.
func (s Status) isUpdated() bool {
	return (s.Phase == Idle || s.Phase == Drifted && s.InForce) && s.Node.Desired != "" &&
		s.Node.Current == s.Node.Desired
}

// isCordoned reports whether the node was cordoned for an update and not uncordoned since. The first sign of a cordon
// is the start time of the drain.
func (s Status) isCordoned() bool {
	isDrain := func(request string) bool {
		verb, _, _ := strings.Cut(request, "-")
		return verb == v1alpha1.DrainVerb
	}
	return isDrain(s.Node.LastAppliedDrain) || isDrain(s.Node.DesiredDrain) && !s.Node.Drain.Started.IsZero()
}

// isDrained reports whether the node is drained for the desired config.
func (s Status) isDrained() bool {
	r, ok := v1alpha1.ParseDrainRequest(s.Node.LastAppliedDrain)
	return ok && r.Verb == v1alpha1.DrainVerb && r.Config == v1alpha1.ParseConfigVersion(s.Node.Desired).Config
}

// needsReboot reports whether the update needs a reboot. The Node shows this until the update ends.
func (s Status) needsReboot() bool { return s.Reboots || s.Node.PostAction != "" }

// hasFailed reports whether the update did not start, was rolled back, or is about to be rolled back.
func (s Status) hasFailed() bool {
	return s.RollingBack || slices.Contains([]Phase{Blocked, RolledBack, Rejected, Refused}, s.Phase)
}

// isPlanned reports whether the daemon has planned the update. The daemon has planned every config that it rejected.
func (s Status) isPlanned() bool { return s.Planned || s.Phase == Rejected || s.step() > preparing }

// step is the step of an update that the daemon has reached.
type step int

// The steps of an update, in order.
const (
	// noStep: no update is under way, or it was rolled back.
	noStep step = iota
	preparing
	draining
	applying
	rebooting
	checking
	confirming
)

// steps has the phases of an update.
var steps = map[Phase]step{
	Planned: preparing, Draining: draining, Applying: applying, Rebooting: rebooting, Checking: checking,
	Confirming: confirming,
}

// step returns the step that the update has reached; noStep while the machine rolls back.
func (s Status) step() step {
	if s.RollingBack {
		return noStep
	}
	return steps[s.Phase]
}

// Images says how far a node is with the images of its PinnedImageSets.
type Images struct {
	// Sets are the sets of the node; none if it unpins its images.
	Sets []*mcfgv1.PinnedImageSet
	// Done is true if the node has and pins all images.
	Done bool
	// Problem is why it cannot pull or pin an image now; empty if there is no problem.
	Problem string
}

// maxSetError is the maximum number of characters of an error in the status of a set.
const maxSetError = 2000

// Status returns the conditions of a MachineConfigNode, and its list of sets. The time of a condition stays if the
// condition does not change.
func (i Images) Status(was []metav1.Condition,
	now metav1.Time,
) ([]metav1.Condition, []mcfgv1.MachineConfigNodeStatusPinnedImageSet) {
	progressing := metav1.Condition{
		Type:   string(mcfgv1.MachineConfigNodePinnedImageSetsProgressing),
		Status: metav1.ConditionTrue, Reason: "ImagePrefetch", Message: "The node pulls images of its PinnedImageSets",
	}
	degraded := metav1.Condition{
		Type:   string(mcfgv1.MachineConfigNodePinnedImageSetsDegraded),
		Status: metav1.ConditionFalse, Reason: "AsExpected", Message: "No image has a problem",
	}
	switch {
	case i.Done && len(i.Sets) == 0:
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionFalse, "AsExpected",
			"The node has no PinnedImageSets"
	case i.Done:
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionFalse, "AsExpected",
			"The node has all images of its PinnedImageSets"
	case i.Problem != "":
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, "PrefetchFailed",
			truncate(i.Problem, maxSetError)
	}
	conditions := []metav1.Condition{progressing, degraded}
	for n := range conditions {
		c := &conditions[n]
		c.LastTransitionTime = now
		for _, old := range was {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	var sets []mcfgv1.MachineConfigNodeStatusPinnedImageSet
	for _, s := range i.Sets {
		is := mcfgv1.MachineConfigNodeStatusPinnedImageSet{
			Name:              s.Name,
			DesiredGeneration: int32(s.Generation),
		} //nolint:gosec // generations are small
		if i.Done {
			is.CurrentGeneration = is.DesiredGeneration
		} else if i.Problem != "" {
			is.LastFailedGeneration, is.LastFailedGenerationError = is.DesiredGeneration,
				truncate(i.Problem, maxSetError)
		}
		sets = append(sets, is)
	}
	return conditions, sets
}

// RollbackTarget names the config to which a machine rolls back.
func RollbackTarget(from, to string) string {
	// The old config and the new config are the same in a forced update, and in an update that added withheld secrets.
	if from == to {
		return to + " as it was before"
	}
	return cmp.Or(from, "its first state")
}
