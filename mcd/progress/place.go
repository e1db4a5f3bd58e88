package progress

import (
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/protocol"
	"github.com/bunsen-os/bunsen/policy"
)

// Place is where a daemon is with its node. All of it is found again after a restart: on the Node, in the journal, in the
// record of the config in force and in the verdict.
type Place struct {
	// Node is its name.
	Node string
	// Phase that the daemon is in.
	Phase Phase
	// Told is what the Node says, with what it is being told now.
	Told protocol.Assignment
	// InForce: the disk is in the desired config.
	InForce bool
	// Planned: this machine can take the desired config. Drains and Reboots: that needs a drain, or a reboot.
	Planned, Drains, Reboots bool
	// Returning: the machine goes back to the config that it had.
	Returning bool
	// Refusals are why a running node cannot take the desired config; none but in phase Refused.
	Refusals []policy.Refusal
}

// Pool is the pool in the name of a rendered config, `rendered-<pool>-<hash>`; "" for other names.
func Pool(config string) string {
	rest, ok := strings.CutPrefix(config, "rendered-")
	i := strings.LastIndexByte(rest, '-')
	if !ok || i < 0 {
		return ""
	}
	return rest[:i]
}

// degraded tells that the Node says so.
func (p Place) degraded() bool {
	return p.Told.State == v1alpha1.StateDegraded || p.Told.State == v1alpha1.StateUnreconcilable
}

// updated tells that the node has what it should have, and the cluster knows.
func (p Place) updated() bool {
	return (p.Phase == Idle || p.Phase == Drifted && p.InForce) && p.Told.Desired != "" && p.Told.Current == p.Told.Desired
}

// verb is `drain` or `uncordon`, of a request or an acknowledgement.
func verb(drain string) string {
	verb, _, _ := strings.Cut(drain, "-")
	return verb
}

// closed tells that the node was closed for an update, and is not known to be open again. The first sign of it is the time
// at which its drain began.
func (p Place) closed() bool {
	t := p.Told
	return verb(t.LastAppliedDrain) == v1alpha1.DrainVerb || verb(t.DesiredDrain) == v1alpha1.DrainVerb && !t.Drain.Started.IsZero()
}

// drained tells that its pods are gone, for the desired config.
func (p Place) drained() bool {
	return p.Told.LastAppliedDrain == v1alpha1.DrainVerb+"-"+p.Told.Desired
}

// reboots tells that the update needs a reboot: the Node says so until the update is over.
func (p Place) reboots() bool { return p.Reboots || p.Told.PostAction != "" }
