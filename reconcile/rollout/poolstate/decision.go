package poolstate

import (
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Decision says what the controller writes to a pool and its nodes now. The caller stores Record first; if that fails,
// it writes nothing else.
type Decision struct {
	// to be stored on the pool first; Facts.Care.Record if nothing has changed
	Record v1alpha1.RolloutRecord
	// the rollouts that end now, the newest first: that of the pool's earlier record, if Record replaces it, and that
	// of Record. The write that stores Record adds them to the pool's history.
	Ended []v1alpha1.RolloutOutcome
	// what nodes are assigned: Facts.Target, or where a reverted pool returns to; zero for none
	Target v1alpha1.ConfigVersion
	// nodes that are assigned the target, in this order
	Assign []Assignment
	// drains to postpone, by node
	Release []Release
	// Writes to nodes that change no config.
	Marks
	// why the rollout does not continue, most important first; none while it continues, and after its end. The texts
	// have no durations, so that they stay the same while nothing changes.
	Blocks []Block
	Stage  Stage
	// before this decision
	Counts Counts
	// if no event comes first; 0 for never
	RequeueAfter time.Duration
}

// Assignment is the assignment of a config to one node.
type Assignment struct {
	// the node to write
	Node string
	// for desiredConfig and desiredSecrets: the node's own config if it has one
	Config v1alpha1.ConfigVersion
	// the earlier desired config; zero for none
	Was v1alpha1.ConfigVersion
	// The write of desiredConfig also removes the annotations of images.
	DropImage bool
	// The write of desiredConfig also removes the UpdateInProgress taint.
	Untaint bool
	// The node failed Was and is out of service, so that this assignment may repair it.
	Recovery bool
}

// Release postpones the drain of one node.
type Release struct {
	// the node to write
	Node string
	// its current config, for desiredConfig and desiredSecrets
	Config v1alpha1.ConfigVersion
	// of PostponedAnnotation, for the write that sets desiredConfig
	Postponed string
	// of DrainsAnnotation, for the write that sets desiredConfig
	Drains string
}

// Block is one reason why a rollout does not continue.
type Block struct {
	// a stable word
	Cause Cause
	// for users
	Reason string
	// when the block ends without a user; zero if unknown
	Until time.Time
	// the first closed gate of the pool, or those of the first nodes
	Closed []v1alpha1.ClosedGate
	// those that a user has to correct, by name
	Policies []string
}

// EndsByItself reports whether the block ends without a user.
func (b Block) EndsByItself() bool {
	switch b.Cause {
	case CauseSoak, CauseAfterPool:
		return true
	case CauseWindow: // A window without a time never opens.
		return !b.Until.IsZero()
	}
	return false
}

// Stage is the current step of a rollout.
type Stage struct {
	// the current step, from 0, and the number of steps in the policy; if equal, all have ended, and the rest of the
	// rollout has no limit
	Step, Of int
	Canary   bool
	// how many nodes run the target at the end of the step; how many were assigned it, without those that failed it or
	// were out of service before; and how many run it and are healthy
	Want, Assigned, Healthy int
	// The nodes are healthy and have soaked, so that only jobs and queries delay the end of the step.
	Due bool
}

// Waiting says why a node does not run the target yet.
type Waiting struct {
	Node string
	// a stable word
	Cause Cause
	// for users
	Reason string
}

// Cause is why a node or a pool waits, as a word for metrics and tests.
type Cause string

// The values of Cause for nodes and pools, most important first.
const (
	// A setting of a user is invalid.
	CauseInvalid Cause = "Invalid"
	// The server has not resolved the secrets of the config, so that no node can get it.
	CauseSecrets Cause = "Secrets"
	// The cluster does not have one whole revision of a GitSource of the pool, or the pool is not rendered from it yet.
	CauseApplying Cause = "Applying"
	CausePaused   Cause = "Paused"
	// Too many nodes failed the config, so no other gets it.
	CauseHalted Cause = "Halted"
	// Too many nodes failed the config, so all return to the last healthy one.
	CauseReverted Cause = "Reverted"
	// Another pool comes first.
	CauseAfterPool Cause = "AfterPool"
	// None is open.
	CauseWindow Cause = "Window"
	// A health gate is closed.
	CauseGate Cause = "Gate"
	// The current step has enough nodes, but has not ended.
	CauseStep Cause = "Step"
	// Updated nodes have to stay healthy for some time: those of a step, or each node before the next one.
	CauseSoak Cause = "Soak"
	// A budget that the pool shares with other pools is used up.
	CauseTogether Cause = "Together"
	// As many nodes as the pool, or its zones, allow are out of service.
	CauseBudget Cause = "Budget"
	// Pods cannot be evicted, or the drain was postponed and the node is updated last.
	CauseDrain Cause = "Drain"
	// by an administrator or by Bunsen
	CauseCordoned Cause = "Cordoned"
	CauseNotReady Cause = "NotReady"
	// The daemon of a node sends no heartbeat, so its config is unknown. A rollout ignores heartbeats, but the status
	// of the pool reports missing ones.
	CauseSilent Cause = "DaemonSilent"
	// The node failed the config; the others wait while its daemon retries.
	CauseFailed Cause = "Failed"
	// Nodes download files of the config before they are assigned it, or cannot download them.
	CauseFetch Cause = "Fetch"
	// A user holds the pool at the config of an earlier revision, whose rollout continues.
	CauseHeld Cause = "Held"
)

// The values of Cause only for nodes.
const (
	// The controller runs on the node, so it is updated last.
	CauseHost Cause = "HostsController"
	// The node booted for another pool, whose labels the controller is about to set.
	CauseLabels Cause = "Labels"
	// The daemon applies the config that the node was assigned.
	CauseUpdating Cause = "Updating"
	// The decision assigns the node its config.
	CauseNext Cause = "Next"
)

// Marks are the writes to nodes that change no config.
type Marks struct {
	// nodes whose NextConfigAnnotation changes
	Announce []Announcement
	// sorted by name
	Label []Label
	// nodes that get or lose the UpdateInProgress taint, sorted by name, without those that are assigned a config, and
	// those of Announce
	Taint, Untaint []string
	// nodes that lose the annotations of a stray image, sorted by name
	DropImage []string
}

// Announcement tells one node which config it gets next, so that it downloads the content of the config.
type Announcement struct {
	// the node to write, and the new value of NextConfigAnnotation; empty if it has nothing to download
	Node, Next string
	// The write also adds or removes the UpdateInProgress taint.
	Taint, Untaint bool
}

// Label puts a node into the custom pool for which the server admitted its machine.
type Label struct {
	Node string
	// to be set, together with CustomPoolLabelsAppliedAnnotation, so that the node gets them only once
	Labels map[string]string
	// The controller first reads the server's records and writes AttestedPoolAnnotation.
	Attest bool
}
