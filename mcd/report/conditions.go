package report

import (
	"cmp"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The reasons of conditions. NodeDegraded has as its reason the phase in which the failure left the update.
const (
	// NotYetOccurred: the update has not reached this step, or there is no update.
	NotYetOccurred = "NotYetOccurred"
	// NotNeeded: this update does not need the step.
	NotNeeded = "NotNeeded"
	// UnderWay: the step has started.
	UnderWay = "UnderWay"
	// Succeeded: the step is done.
	Succeeded = "Succeeded"
	// ReasonRolledBack: the node has returned to the config that it had before the update.
	ReasonRolledBack = "TakenBack"
)

// condition is a condition without its type and time.
type condition struct {
	status          metav1.ConditionStatus
	reason, message string
}

func succeeded(message string) condition {
	return condition{metav1.ConditionTrue, Succeeded, message}
}

func underWay(message string) condition {
	return condition{metav1.ConditionUnknown, UnderWay, message}
}

func notNeeded(message string) condition {
	return condition{metav1.ConditionFalse, NotNeeded, message}
}

func notYet(message string) condition {
	return condition{metav1.ConditionFalse, NotYetOccurred, message}
}

// rules has the conditions in the order in which an update makes them true, each with the function that returns it.
var rules = []struct {
	kind mcfgv1.StateProgress
	of   func(Status) condition
}{
	{mcfgv1.MachineConfigNodeUpdatePrepared, prepared},
	{mcfgv1.MachineConfigNodeUpdateExecuted, func(s Status) condition {
		return s.stepCondition(draining, rebooting, "draining the node, or changing its files and OS",
			"files and OS are those of "+s.Node.Desired)
	}},
	{mcfgv1.MachineConfigNodeUpdateCordoned, cordoned},
	{mcfgv1.MachineConfigNodeUpdateDrained, drained},
	{mcfgv1.MachineConfigNodeUpdateFilesAndOS, func(s Status) condition {
		return s.stepCondition(applying, rebooting, "changing files and OS to those of "+s.Node.Desired,
			"files and OS are those of "+s.Node.Desired)
	}},
	{mcfgv1.MachineConfigNodeUpdatePostActionComplete, func(s Status) condition {
		return s.stepCondition(rebooting, confirming, "checking whether the node is healthy with "+s.Node.Desired,
			"the node is healthy with "+s.Node.Desired)
	}},
	{mcfgv1.MachineConfigNodeUpdateRebooted, rebooted},
	{mcfgv1.MachineConfigNodeUpdateComplete, func(s Status) condition {
		return s.stepCondition(confirming, confirming, "", s.Node.Desired+" is in force")
	}},
	{mcfgv1.MachineConfigNodeUpdateUncordoned, func(s Status) condition {
		return s.confirmingCondition(s.isCordoned(), "the daemon has requested that machine-config-controller "+
			"uncordons the node")
	}},
	{mcfgv1.MachineConfigNodeResumed, func(s Status) condition {
		return s.confirmingCondition(true, "the node accepts pods again once it is uncordoned")
	}},
	{mcfgv1.MachineConfigNodeUpdated, updated},
	{mcfgv1.MachineConfigNodeNodeDegraded, degraded},
}

// stepCondition returns a condition that depends on the step of the update: False before the step begins, Unknown from
// the step begins on, and True from the step ends on.
func (s Status) stepCondition(begins, ends step, does, did string) condition {
	switch at := s.step(); {
	case s.hasFailed() && s.isPlanned() && s.Phase != Blocked:
		return condition{metav1.ConditionFalse, ReasonRolledBack, "the node is in " + oldConfig(s)}
	case at >= ends:
		return succeeded(did)
	case at >= begins:
		return underWay(does)
	}
	return notReached(s)
}

// confirmingCondition returns a condition that is Unknown while the daemon confirms an update to which the condition
// applies.
func (s Status) confirmingCondition(applies bool, does string) condition {
	if applies && s.step() == confirming {
		return underWay(does)
	}
	return notReached(s)
}

// notReached returns the condition of a step that the update has not reached.
func notReached(s Status) condition {
	if s.isUpdated() || s.Node.Desired == "" {
		return notYet("no update is under way")
	}
	return notYet("the update to " + s.Node.Desired + " has not reached this step")
}

// oldConfig returns the name of the config that the node had before the update.
func oldConfig(s Status) string { return cmp.Or(s.Node.Current, "its first state") }

func prepared(s Status) condition {
	switch {
	case s.Phase == Refused:
		return condition{metav1.ConditionFalse, string(Refused), "a running node cannot apply " + s.Node.Desired +
			": see NodeDegraded"}
	case s.Phase == Blocked:
		return condition{metav1.ConditionFalse, string(Blocked), "the update to " + s.Node.Desired +
			" cannot begin, and nothing has changed: see NodeDegraded"}
	// In later steps, the result of costText would be unknown.
	case s.step() > noStep && s.step() < confirming && s.Planned:
		return succeeded("this node can apply " + s.Node.Desired + ", " + costText(s))
	case s.hasFailed() && !s.isPlanned():
		return notYet("the update to " + s.Node.Desired + " could not start: see NodeDegraded")
	case s.hasFailed(), s.step() > preparing:
		return succeeded("this node can apply " + s.Node.Desired)
	}
	return notReached(s)
}

// costText returns a text that says whether the update needs a drain or a reboot.
func costText(s Status) string {
	switch {
	case s.Drains && s.needsReboot():
		return "with a drain and a reboot"
	case s.needsReboot():
		return "with a reboot"
	case s.Drains:
		return "with a drain"
	}
	return "without a drain or a reboot"
}

func cordoned(s Status) condition {
	switch {
	case s.Phase == Idle || s.isUpdated():
		return notReached(s)
	case s.isCordoned():
		return succeeded("the node is cordoned")
	case s.step() == draining:
		return underWay("the daemon has requested that machine-config-controller cordons the node")
	}
	return withoutDrain(s)
}

func drained(s Status) condition {
	switch {
	case s.Phase == Idle || s.isUpdated():
		return notReached(s)
	case s.isDrained():
		return succeeded("the node is drained")
	case s.step() == draining, s.hasFailed() && s.Drains && (s.Phase != Blocked || s.isCordoned()):
		return underWay("waiting for pods to end: bunsen why node/" + s.NodeName + " lists them")
	}
	return withoutDrain(s)
}

// withoutDrain returns the condition of a drain that has not started.
func withoutDrain(s Status) condition {
	if s.step() > preparing && s.Planned && !s.Drains {
		return notNeeded("this update needs no drain")
	}
	return notReached(s)
}

func rebooted(s Status) condition {
	switch {
	case s.RollingBack:
		return underWay("rebooting to roll back to " + oldConfig(s))
	case s.step() > preparing && !s.needsReboot():
		return notNeeded("this update needs no reboot")
	}
	return s.stepCondition(rebooting, checking, "rebooting into "+s.Node.Desired, "the node has rebooted into "+
		s.Node.Desired)
}

func updated(s Status) condition {
	switch n := s.Node; {
	case s.isUpdated():
		return condition{metav1.ConditionTrue, "Updated", "the node is in " + n.Desired}
	case n.Desired == "":
		return notYet("the node has no desired config yet")
	case n.Current == n.Desired:
		// The configs are equal if the node lacks withheld secrets, or if the update is forced.
		return condition{metav1.ConditionFalse, "Updating", "the node does not have all of " + n.Desired + " yet"}
	default:
		return condition{metav1.ConditionFalse, "Updating", "the node updates from " + oldConfig(s) + " to " +
			n.Desired}
	}
}

func degraded(s Status) condition {
	if !s.isDegraded() {
		return notYet("the node is not degraded")
	}
	reason := s.Phase
	switch failed, err := v1alpha1.ParseFailure(s.Node.Failure); {
	case s.Node.State == v1alpha1.StateUnreconcilable:
		reason = Refused
	case s.RollingBack:
		reason = RolledBack
	case !s.hasFailed() && s.Phase != Drifted && err == nil && failed.Phase != "": // The daemon retries.
		reason = Phase(failed.Phase)
	}
	return condition{metav1.ConditionTrue, string(reason), cmp.Or(s.Node.Reason, "the Node gives no reason")}
}

// conditions returns all conditions. A transition time changes only with the status.
func (s Status) conditions(before []metav1.Condition, now metav1.Time) []metav1.Condition {
	var all []metav1.Condition
	for _, r := range rules {
		is := r.of(s)
		c := metav1.Condition{
			Type: string(r.kind), Status: is.status, Reason: is.reason, Message: is.message,
			LastTransitionTime: now,
		}
		for _, was := range before {
			if was.Type == c.Type && was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
		}
		all = append(all, c)
	}
	return all
}
