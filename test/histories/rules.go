package histories

import "fmt"

// Rule is something that must hold, as a sentence.
type Rule string

// The rules.
const (
	OverBudget Rule = "a decision never takes more nodes out of service than each budget leaves"
	InFlight   Rule = "no more nodes are ever at work than the budget had room for, whatever the controllers knew"
	OneConfig  Rule = "a config begins on a node only when the node is closed and drained for it, and no other is " +
		"under way there"
	KnownConfig  Rule = "a node is told only configs that were rendered for its pool, and that exist"
	KnownSecrets Rule = "a node is told only secrets that a server published for its config, and never a config " +
		"without its secrets"
	AdminCordon   Rule = "an administrator's cordon is never lifted"
	OwnCordon     Rule = "our own cordon is lifted in the end"
	HaltedConfig  Rule = "a config that was halted is told to no further node"
	FailureBudget Rule = "a config that failed on as many nodes as its policy allows is told to no further node"
	ClosedWindow  Rule = "nothing fresh is told while no window is open"
	PausedPool    Rule = "nothing is told while the pool is paused"
	StepByStep    Rule = "no node is told beyond a step before the step's nodes are well and have soaked, and the " +
		"gates are open"
	KeptQuorum  Rule = "a node that a quorum needs stays in service"
	AfterPools  Rule = "no node is told before the pools that come first are done"
	TwoWrites   Rule = "a rollout writes at most twice to a node, and once more if the node downloads files first"
	KeptRecord  Rule = "what the record of a rollout says is not forgotten"
	TrueHistory Rule = "the history of a pool has each rollout once, as it ended, and every view shows it like that"
	FilesFirst  Rule = "a node in service is told a config only once it has the files of the config"
	BrokenFirst Rule = "a fix reaches the broken nodes first"
	EveryNode   Rule = "every node that does not run the target is told it, or waits for a stated reason"
	TrueStatus  Rule = "a pool is Updated only where each of its nodes is"
	DrainedNode Rule = "a drain is acknowledged only where the node is closed and empty"
	PodBudget   Rule = "a pod is deleted past its budget only where the policy says so"
	Converges   Rule = "every healthy node comes to the last good config, or waits for a stated reason"
	TrueReason  Rule = "what a node or a pool is said to wait for is true"
	Rest        Rule = "a cluster in which nothing happens is written to no more"
)

// breaks notes the first rule that is broken.
func (w *world) breaks(r Rule, format string, args ...any) {
	if w.ledger.broken == "" {
		w.ledger.broken, w.ledger.how = r, fmt.Sprintf(format, args...)
	}
}
