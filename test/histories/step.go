package histories

import "fmt"

// Verb is what happens in a step.
type Verb int

// The verbs. A and B are the fields of the Step; one that names nothing does nothing.
const (
	// Sync: the rollout controller does its next write, or looks at pool A; B are the watches that it hears first.
	Sync Verb = iota
	// Drain: the drain controller looks at machine A's node; B as in Sync.
	Drain
	// Daemon: the daemon of machine A does its next thing.
	Daemon
	// Machine: the hardware of machine A does its next thing; B is 1 for a quick reboot.
	Machine
	// Restart: the controllers crash and begin anew.
	Restart
	// Tick: B seconds pass; below 0 the clock is set back.
	Tick
	// Render: pool A gets what the newest commit has for it.
	Render
	// Push: a commit with a new config for the pools of the bits of A; B picks what the config is, C whom it hits.
	Push
	// Revert: a commit with what the commit A before the newest had.
	Revert
	// Vanish: somebody deletes the MachineConfig number A; Remake: the controller makes it again.
	Vanish
	// Remake is the end of Vanish.
	Remake

	// Cordon and Uncordon: an administrator does it to machine A's node.
	Cordon
	// Uncordon is the end of Cordon.
	Uncordon
	// Pause and Resume pool A.
	Pause
	// Resume is the end of Pause.
	Resume
	// DeleteNode A; with B 1 its machine is gone for good, else it registers anew.
	DeleteNode
	// AddNode: a new machine in pool A, zone B; C says how it comes, see newcomer.
	AddNode
	// Move machine A's node to pool B by its labels; with C 1 it keeps the old ones.
	Move
	// Budget: pool A gets the maxUnavailable number B.
	Budget
	// Policy number A becomes its variant B.
	Policy
	// Shut and Open the PodDisruptionBudget of app A.
	Shut
	// Open is the end of Shut.
	Open
	// Gate: the pool-wide gates answer B: 0 open, 1 wait, 2 failed. NodeGate: the DaemonSet's pod on machine A is ready
	// with B 0.
	Gate
	// NodeGate is Gate for one node.
	NodeGate
	// RetryNode and RetryPool ask to try again what failed.
	RetryNode
	// RetryPool is RetryNode for pool A.
	RetryPool
	// OpenUntil lets pool A be rolled out for B minutes, whatever its windows say.
	OpenUntil
	// Ill and Well: the kubelet of machine A has trouble of its own, or none any more.
	Ill
	// Well is the end of Ill.
	Well
	// Drift: somebody changes a file of machine A; Mend puts it back.
	Drift
	// Mend is the end of Drift.
	Mend
	// Repair: a lost machine A is power-cycled, and comes up in its old config.
	Repair
	// Rotate: servers publish new secrets for the config of pool A; B and C are as in Push.
	Rotate
	// Hide: the ConfigMap of secrets is deleted with B 1, and there again with B 0.
	Hide
	// CutOff: machine A cannot reach the server of files; with B 0 it can again.
	CutOff
	// Member: the member of etcd on machine A stops with B 1, and serves again with B 0.
	Member
	// Pressure: machine A is short of disk space with B 1, and no more with B 0.
	Pressure
	verbs
)

// Watches that a controller hears, in a step's B.
const (
	hearNodes = 1 << iota
	hearPools
)

// Step is one thing that happens.
type Step struct {
	Verb    Verb
	A, B, C int
}

// names of verbs, for the print of a history that can be replayed by hand.
var names = [verbs]string{
	"sync", "drain", "daemon", "machine", "restart", "tick", "render", "push", "revert", "vanish", "remake",
	"cordon", "uncordon", "pause", "resume", "delete", "add", "move", "budget", "policy", "shut", "open", "gate",
	"nodegate",
	"retrynode", "retrypool", "openuntil", "ill", "well", "drift", "mend", "repair", "rotate", "hide", "cutoff",
	"member", "pressure",
}

// String is the step as Go would write it, in short.
func (s Step) String() string {
	if s.Verb < 0 || s.Verb >= verbs {
		return fmt.Sprintf("%d?", s.Verb)
	}
	return fmt.Sprintf("%s %d %d %d", names[s.Verb], s.A, s.B, s.C)
}
