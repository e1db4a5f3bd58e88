package progress

import (
	"cmp"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The reasons of conditions; besides them, NodeDegraded has the phase in which the daemon is.
const (
	// NotYetOccurred: the update has not come so far, or there is none.
	NotYetOccurred = "NotYetOccurred"
	// NotNeeded: this update does without.
	NotNeeded = "NotNeeded"
	// UnderWay: begun, and not over.
	UnderWay = "UnderWay"
	// Succeeded: over, and well.
	Succeeded = "Succeeded"
	// TakenBack: it was, or would have been, and the node is in the config that it had.
	TakenBack = "TakenBack"
)

// word is what a condition says.
type word struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(message string) word     { return word{metav1.ConditionTrue, Succeeded, message} }
func open(message string) word    { return word{metav1.ConditionUnknown, UnderWay, message} }
func without(message string) word { return word{metav1.ConditionFalse, NotNeeded, message} }
func no(message string) word      { return word{metav1.ConditionFalse, NotYetOccurred, message} }

// rules are the conditions in the order in which an update makes them true, each with what it says of a place.
var rules = []struct {
	kind mcfgv1.StateProgress
	says func(Place) word
}{
	{mcfgv1.MachineConfigNodeUpdatePrepared, prepared},
	{mcfgv1.MachineConfigNodeUpdateExecuted, executed},
	{mcfgv1.MachineConfigNodeUpdateCordoned, cordoned},
	{mcfgv1.MachineConfigNodeUpdateDrained, drained},
	{mcfgv1.MachineConfigNodeUpdateFilesAndOS, applied},
	{mcfgv1.MachineConfigNodeUpdatePostActionComplete, postAction},
	{mcfgv1.MachineConfigNodeUpdateRebooted, rebooted},
	{mcfgv1.MachineConfigNodeUpdateComplete, complete},
	{mcfgv1.MachineConfigNodeUpdateUncordoned, uncordoned},
	{mcfgv1.MachineConfigNodeResumed, resumed},
	{mcfgv1.MachineConfigNodeUpdated, updated},
	{mcfgv1.MachineConfigNodeNodeDegraded, degraded},
}

// step is how far an update has come.
type step int

// The steps of an update, in order.
const (
	// nowhere: no update is under way, or it was taken back.
	nowhere step = iota
	preparing
	draining
	applying
	rebooting
	checking
	confirming
)

// steps are the phases of an update. A machine that reboots to go back is nowhere.
var steps = map[Phase]step{
	Planned: preparing, Draining: draining, Applying: applying, Rebooting: rebooting, Checking: checking, Confirming: confirming,
}

func (p Place) step() step {
	switch {
	case p.Returning:
		return nowhere
	case p.Phase == RolledBack && p.InForce: // it is not opened again
		return confirming
	}
	return steps[p.Phase]
}

// failed tells that the update did not begin, was taken back, or is about to be.
func (p Place) failed() bool {
	return p.Returning || p.Phase == Rejected || p.Phase == Refused || p.Phase == RolledBack && !p.InForce
}

// planned tells that it is known what the update needs. What was rejected had been tried.
func (p Place) planned() bool { return p.Planned || p.Phase == Rejected || p.step() > preparing }

// through is what a step of the update says: false before it, Unknown from one step on, True from another.
func (p Place) through(begins, ends step, does, did string) word {
	switch at := p.step(); {
	case p.failed() && p.planned():
		return word{metav1.ConditionFalse, TakenBack, "the node is in " + cmp.Or(p.Told.Current, "its first state")}
	case at >= ends:
		return yes(did)
	case at >= begins:
		return open(does)
	}
	return p.none()
}

// none is what is said of that to which no update has come.
func (p Place) none() word {
	if p.updated() || p.Told.Desired == "" {
		return no("no update is under way")
	}
	return no("the update to " + p.Told.Desired + " has not come to this")
}

func prepared(p Place) word {
	switch {
	case p.Phase == Refused:
		return word{metav1.ConditionFalse, string(Refused), "a running node cannot take " + p.Told.Desired + ": see NodeDegraded"}
	case p.step() > nowhere && p.step() < confirming && p.Planned: // later, only what it needed is known
		return yes("this node can take " + p.Told.Desired + ", " + cost(p))
	case p.failed() && !p.planned():
		return no("the update to " + p.Told.Desired + " could not begin: see NodeDegraded")
	case p.failed(), p.step() > preparing:
		return yes("this node can take " + p.Told.Desired)
	}
	return p.none()
}

// cost is what the update needs.
func cost(p Place) string {
	switch {
	case p.Drains && p.reboots():
		return "with a drain and a reboot"
	case p.reboots():
		return "with a reboot"
	case p.Drains:
		return "with a drain"
	}
	return "without a drain or a reboot"
}

func executed(p Place) word {
	return p.through(draining, rebooting, "draining the node, or changing its files and OS", "files and OS are those of "+p.Told.Desired)
}

func applied(p Place) word {
	return p.through(applying, rebooting, "changing files and OS to those of "+p.Told.Desired, "files and OS are those of "+p.Told.Desired)
}

func cordoned(p Place) word {
	switch {
	case p.Phase == Idle || p.updated():
		return p.none()
	case p.closed():
		return yes("the node is closed")
	case p.step() == draining:
		return open("asked machine-config-controller to close the node")
	}
	return noDrain(p)
}

// noDrain is what is said where there is no drain.
func noDrain(p Place) word {
	if p.step() > preparing && p.Planned && !p.Drains {
		return without("this update needs no drain")
	}
	return p.none()
}

func drained(p Place) word {
	switch {
	case p.Phase == Idle || p.updated():
		return p.none()
	case p.drained():
		return yes("its pods are gone")
	case p.step() == draining, p.failed() && p.Drains:
		return open("waiting for pods to go: bunsen why node/" + p.Node + " says for which")
	}
	return noDrain(p)
}

func rebooted(p Place) word {
	switch {
	case p.Returning:
		return open("rebooting, to go back to " + cmp.Or(p.Told.Current, "its first state"))
	case p.step() > preparing && !p.reboots():
		return without("this update needs no reboot")
	}
	return p.through(rebooting, checking, "rebooting into "+p.Told.Desired, "the node has rebooted into "+p.Told.Desired)
}

func postAction(p Place) word {
	return p.through(rebooting, confirming, "finding out whether the node is healthy with "+p.Told.Desired, "the node is healthy with "+p.Told.Desired)
}

func complete(p Place) word {
	return p.through(confirming, confirming, "", p.Told.Desired+" is in force")
}

func uncordoned(p Place) word {
	if p.step() == confirming && p.closed() {
		return open("asked machine-config-controller to open the node")
	}
	return p.none()
}

func resumed(p Place) word {
	if p.step() == confirming {
		return open("the node takes pods again when it is open")
	}
	return p.none()
}

func updated(p Place) word {
	switch t := p.Told; {
	case p.updated():
		return word{metav1.ConditionTrue, "Updated", "the node is in " + t.Desired}
	case t.Desired == "":
		return no("the node was told no config yet")
	case t.Current == t.Desired: // born without its secrets, or forced
		return word{metav1.ConditionFalse, "Updating", "the node is to have all of " + t.Desired}
	default:
		return word{metav1.ConditionFalse, "Updating", "the node is to go from " + cmp.Or(t.Current, "its first state") + " to " + t.Desired}
	}
}

func degraded(p Place) word {
	if !p.degraded() {
		return no("nothing is wrong")
	}
	reason := p.Phase
	switch {
	case p.Told.State == v1alpha1.StateUnreconcilable:
		reason = Refused
	case !p.failed() && p.Phase != Drifted || p.Returning: // it is being tried again, or still on its way back
		reason = RolledBack
	}
	return word{metav1.ConditionTrue, string(reason), cmp.Or(p.Told.Reason, "the Node gives no reason")}
}

// conditions says all of them. A time of transition moves with the status only.
func (p Place) conditions(before []metav1.Condition, now metav1.Time) []metav1.Condition {
	var all []metav1.Condition
	for _, r := range rules {
		w := r.says(p)
		c := metav1.Condition{Type: string(r.kind), Status: w.status, Reason: w.reason, Message: w.message, LastTransitionTime: now}
		for _, was := range before {
			if was.Type == c.Type && was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
		}
		all = append(all, c)
	}
	return all
}
