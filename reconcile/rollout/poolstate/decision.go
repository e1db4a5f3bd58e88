package poolstate

import (
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Decision says what the controller writes to a pool and its nodes now. The caller stores Record first. If the
// controller cannot store Record, it writes nothing else.
type Decision struct {
	// Record is the record to store on the pool first. Record equals Facts.Care.Record if nothing has changed.
	Record v1alpha1.RolloutRecord
	// Ended are the rollouts that end now, the newest first: that of the pool's earlier record, if Record replaces it,
	// and that of Record. The caller adds Ended to the pool's history in the write that stores Record.
	Ended []v1alpha1.RolloutOutcome
	// Target is the config that nodes are assigned, with the revision of its secrets: Facts.Target, or the config to
	// which a reverted pool returns; empty for none.
	Target string
	// Assign are the nodes that the controller assigns the target, in this order.
	Assign []Assignment
	// Release are the drains to postpone, by node name.
	Release []Release
	// Marks are the writes to nodes that change no config.
	Marks
	// Blocks say why the rollout does not continue, most important first. Blocks is empty while the rollout continues,
	// and after its end. The texts of Blocks have no durations, so that they stay the same while nothing changes.
	Blocks []Block
	// Stage is the current step.
	Stage Stage
	// Counts are the pool's numbers before this decision.
	Counts Counts
	// RequeueAfter is when to decide again if no event comes first; 0 for never.
	RequeueAfter time.Duration
}

// Assignment is the assignment of a config to one node.
type Assignment struct {
	// Node is the node to write. Config is the rendered config to write as desiredConfig, with the revision of its
	// secrets to write as desiredSecrets; see v1alpha1.ConfigAt. It is the node's own config if the node has one.
	Node, Config string
	// Was is the earlier desired config; empty for none.
	Was string
	// If DropImage is true, the write of desiredConfig also removes the annotations of images.
	DropImage bool
	// If Untaint is true, the write of desiredConfig also removes the UpdateInProgress taint.
	Untaint bool
	// Recovery is true if the node failed the config Was and is out of service, so that this assignment may repair it.
	Recovery bool
}

// Release postpones the drain of one node.
type Release struct {
	// Node is the node to write. Config is its current config with the revision of its secrets, which are written as
	// desiredConfig and desiredSecrets.
	Node, Config string
	// Postponed is the new value of PostponedAnnotation, for the write that sets desiredConfig.
	Postponed string
	// Drains is the new value of DrainsAnnotation, for the write that sets desiredConfig.
	Drains string
}

// Block is one reason why a rollout does not continue.
type Block struct {
	// Cause is the reason as a stable word.
	Cause Cause
	// Reason is the reason as a text for users.
	Reason string
	// Until is when the block ends without a user; zero if the time is unknown.
	Until time.Time
	// Closed are the closed health gates: the first closed gate of the pool, or the gates of the first nodes.
	Closed []v1alpha1.ClosedGate
	// Policies are the RolloutPolicies that a user has to correct, by name; empty for other blocks.
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
	// Step is the number of the current step, from 0. Of is the number of steps in the policy. If Step equals Of, all
	// steps have ended, and the rest of the rollout has no limit.
	Step, Of int
	// Canary is true for the step of the canary.
	Canary bool
	// Want is how many nodes run the target at the end of the step. Assigned is how many nodes were assigned the
	// target, without nodes that failed it or were out of service before. Healthy is how many nodes run the target and
	// are healthy.
	Want, Assigned, Healthy int
	// Due is true if the nodes are healthy and have soaked, so that only jobs and queries delay the end of the step.
	Due bool
}

// Waiting says why a node does not run the target yet.
type Waiting struct {
	// Node is the node that waits.
	Node string
	// Cause is the reason as a stable word.
	Cause Cause
	// Reason is the reason as a text for users.
	Reason string
}

// Cause is why a node or a pool waits, as a word for metrics and tests.
type Cause string

// The values of Cause for nodes and pools, most important first.
const (
	// CauseInvalid: a setting that a user wrote is invalid.
	CauseInvalid Cause = "Invalid"
	// CauseSecrets: the server has not resolved the secrets of the config, so that no node can get it.
	CauseSecrets Cause = "Secrets"
	// CauseApplying: the cluster does not have one whole revision of a GitSource of the pool, or the pool is not
	// rendered from this revision yet.
	CauseApplying Cause = "Applying"
	// CausePaused: the pool is paused.
	CausePaused Cause = "Paused"
	// CauseHalted: too many nodes failed the config, so the controller does not assign it to other nodes.
	CauseHalted Cause = "Halted"
	// CauseReverted: too many nodes failed the config, so all nodes return to the last healthy config.
	CauseReverted Cause = "Reverted"
	// CauseAfterPool: another pool is updated first.
	CauseAfterPool Cause = "AfterPool"
	// CauseWindow: no maintenance window is open.
	CauseWindow Cause = "Window"
	// CauseGate: a health gate is not open.
	CauseGate Cause = "Gate"
	// CauseStep: the current step has enough nodes, but has not ended.
	CauseStep Cause = "Step"
	// CauseSoak: updated nodes have to stay healthy for some time: those of a step, or each node before the next one.
	CauseSoak Cause = "Soak"
	// CauseTogether: a budget that the pool shares with other pools is used up.
	CauseTogether Cause = "Together"
	// CauseBudget: as many nodes as the pool allows, or as its zones allow, are out of service.
	CauseBudget Cause = "Budget"
	// CauseDrain: pods cannot be evicted, or the drain was postponed and the node is updated last.
	CauseDrain Cause = "Drain"
	// CauseCordoned: the node is cordoned, by an administrator or by Bunsen.
	CauseCordoned Cause = "Cordoned"
	// CauseNotReady: the node is not Ready.
	CauseNotReady Cause = "NotReady"
	// CauseSilent: the daemon of a node sends no heartbeat, so the config of the node is unknown. A rollout ignores
	// heartbeats, but the status of the pool reports missing heartbeats.
	CauseSilent Cause = "DaemonSilent"
	// CauseFailed: the node failed the config; the other nodes wait while its daemon retries.
	CauseFailed Cause = "Failed"
	// CauseFetch: nodes download files of the config before they are assigned the config, or cannot download them.
	CauseFetch Cause = "Fetch"
	// CauseHeld: a user holds the pool at the config of an earlier revision. The rollout of that config continues.
	CauseHeld Cause = "Held"
)

// The values of Cause only for nodes.
const (
	// CauseHost: the controller runs on the node, so the node is updated last.
	CauseHost Cause = "HostsController"
	// CauseLabels: the node booted for another pool, and the controller is about to set the labels of that pool.
	CauseLabels Cause = "Labels"
	// CauseUpdating: the node was assigned the config, and its daemon applies the config.
	CauseUpdating Cause = "Updating"
	// CauseNext: the decision assigns the node its config.
	CauseNext Cause = "Next"
)

// Marks are the writes to nodes that change no config.
type Marks struct {
	// Announce has the nodes whose NextConfigAnnotation changes.
	Announce []Announcement
	// Label are the nodes that get labels, sorted by name.
	Label []Label
	// Taint and Untaint are the nodes that get or lose the UpdateInProgress taint, sorted by name. Nodes that are
	// assigned a config, and those of Announce, are in neither list.
	Taint, Untaint []string
	// DropImage are the nodes that lose the annotations of a stray image, sorted by name.
	DropImage []string
}

// Announcement tells one node which config it gets next, so that it downloads the content of the config.
type Announcement struct {
	// Node is the node to write. Next is the new value of NextConfigAnnotation; empty if the node has nothing to
	// download.
	Node, Next string
	// If Taint is true, the write also adds the UpdateInProgress taint. If Untaint is true, it removes the taint.
	Taint, Untaint bool
}

// Label puts a node into the custom pool for which the server admitted its machine.
type Label struct {
	// Node is the node to write.
	Node string
	// Labels are the labels to set. The same write sets CustomPoolLabelsAppliedAnnotation, so that the node gets the
	// labels only once.
	Labels map[string]string
	// Attest is true if the controller first reads the server's records and writes AttestedPoolAnnotation.
	Attest bool
}
