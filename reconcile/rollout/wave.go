package rollout

import (
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Wave is what to do with a pool now. Whoever acts on it stores Record first: if that fails, nothing else is done.
type Wave struct {
	// Record is what to store on the pool before acting, equal to Facts.Care.Record where nothing changed.
	Record v1alpha1.RolloutRecord
	// Past is how the rollout before Record's ended, to add to the pool's history in the same write; nil: Record is not another's.
	Past *v1alpha1.RolloutOutcome
	// Target is what nodes are told: Facts.Target, or the config that a reverted pool goes back to; empty: nothing.
	Target string
	// Assign are the nodes to tell the target, in the order to tell them.
	Assign []Assignment
	// Release are drains to give up, by name.
	Release []Release
	// Label are the nodes to put labels on, by name.
	Label []Label
	// Taint and Untaint are the nodes, besides those of Assign, that get or lose the UpdateInProgress taint, by name.
	Taint, Untaint []string
	// Blocks say why the pool as a whole does not go on, most important first; empty while it does, and once it is done.
	// Their texts name no durations, so that they stay the same while nothing changes.
	Blocks []Block
	// Stage is the step under way.
	Stage Stage
	// Counts are the pool's numbers, before anything of this wave is done.
	Counts Counts
	// LookAgain is when to decide again even if nothing is heard of; 0 means that there is no need to.
	LookAgain time.Duration
}

// Assignment tells one node its config.
type Assignment struct {
	// Node to write to, and the rendered Config to write there as desiredConfig.
	Node, Config string
	// Was is the config that the node was told before; empty for none.
	Was string
	// DropImage: remove the desiredImage annotation in the same write.
	DropImage bool
	// Untaint: remove the UpdateInProgress taint in the same write.
	Untaint bool
	// Recovery: the node failed Was and is out of service; this order is meant to heal it.
	Recovery bool
}

// Release gives up one node's drain.
type Release struct {
	// Node to write to, and the Config to write there as desiredConfig: the one that it runs.
	Node, Config string
	// Postponed is the value of PostponedAnnotation to write in the same write.
	Postponed string
	// Drains is the value of DrainsAnnotation to write in the same write.
	Drains string
}

// Label puts a node into the custom pool that the server let its machine in for.
type Label struct {
	// Node to write to.
	Node string
	// Labels to put on it, together with CustomPoolLabelsAppliedAnnotation, so that it is done once.
	Labels map[string]string
	// Attest: there are no Labels yet. First the server's records are read, and AttestedPoolAnnotation is written.
	Attest bool
}

// Block is one thing that keeps a pool from going on.
type Block struct {
	// Cause is the reason as a stable word.
	Cause Cause
	// Reason is the reason in words, for people.
	Reason string
	// Until is when it ends by itself; zero if that is not known.
	Until time.Time
}

// Stage is the step of a rollout that is under way.
type Stage struct {
	// Step is its number, from 0; Of is how many steps the pace has. Step == Of is the last stage, which has no limit.
	Step, Of int
	// Canary: it is the canary's.
	Canary bool
	// Want nodes are to run the target at its end; Told were told it, those apart that failed it or
	// were out of service before, Well ones run it and are well.
	Want, Told, Well int
	// Due: its nodes are well and have soaked; only jobs and queries are left to ask.
	Due bool
}

// Waiting says why a node does not run the target yet.
type Waiting struct {
	// Node that waits.
	Node string
	// Cause is the reason as a stable word.
	Cause Cause
	// Reason is the reason in words, for people.
	Reason string
}

// Cause is why a node or a pool waits, as a word for metrics and tests.
type Cause string

// Values of Cause that a pool can have too, most important first.
const (
	// CauseInvalid: something that a person wrote cannot be followed.
	CauseInvalid Cause = "Invalid"
	// CauseApplying: a GitSource that feeds the pool is not on the cluster as one whole revision, or the pool is not rendered
	// from it yet.
	CauseApplying Cause = "Applying"
	// CausePaused: the pool is paused.
	CausePaused Cause = "Paused"
	// CauseHalted: too many nodes failed the config, so that nobody else is told it.
	CauseHalted Cause = "Halted"
	// CauseReverted: too many nodes failed the config, so that all go back to the last one that the whole pool ran.
	CauseReverted Cause = "Reverted"
	// CauseAfterPool: another pool comes first.
	CauseAfterPool Cause = "AfterPool"
	// CauseWindow: no maintenance window is open.
	CauseWindow Cause = "Window"
	// CauseGate: a health gate is not open.
	CauseGate Cause = "Gate"
	// CauseStep: the step under way has room for no more nodes, and does not end.
	CauseStep Cause = "Step"
	// CauseSoak: the nodes of the step have to be well for some time yet.
	CauseSoak Cause = "Soak"
	// CauseTogether: a budget that the pool shares with others is used up.
	CauseTogether Cause = "Together"
	// CauseBudget: as many nodes as the pool allows, or as its zones allow, are out of service.
	CauseBudget Cause = "Budget"
	// CauseDrain: pods cannot be evicted, or could not be and the node comes again after all others.
	CauseDrain Cause = "Drain"
	// CauseCordoned: the node is cordoned, by an administrator or still by us.
	CauseCordoned Cause = "Cordoned"
	// CauseNotReady: the node is not well.
	CauseNotReady Cause = "NotReady"
	// CauseSilent: the daemon of a node has stopped reporting, so that nobody knows what the node runs. A rollout does not read
	// heartbeats; its status does.
	CauseSilent Cause = "DaemonSilent"
	// CauseFailed: the node was told and could not; the others wait while it is tried again.
	CauseFailed Cause = "Failed"
)

// Values of Cause that only nodes have.
const (
	// CauseHost: the controller runs on the node, which is therefore told last.
	CauseHost Cause = "HostsController"
	// CauseLabels: the node booted for another pool, and is about to be labelled for it.
	CauseLabels Cause = "Labels"
	// CauseUpdating: the node was told and is at work.
	CauseUpdating Cause = "Updating"
	// CauseNext: the wave tells the node its config.
	CauseNext Cause = "Next"
)
