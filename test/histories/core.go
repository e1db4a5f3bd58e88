package histories

import (
	"time"

	"github.com/bunsen-os/bunsen/reconcile/drain"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// Core are the decisions that a history is played with. Real has the ones that ship; a test that wants to see a rule
// broken puts a worse one in place.
type Core struct {
	// Next and Explain decide on a pool.
	Next    func(poolstate.Facts, time.Time) poolstate.Decision
	Explain func(poolstate.Facts, poolstate.Decision, time.Time) []poolstate.Waiting
	// Cordon, Uncordon and Rest say how a node is closed and opened.
	Cordon   func(drain.Cordoned, string) drain.Change
	Uncordon func(drain.Cordoned) drain.Change
	Rest     func(drain.Node) drain.Change
	// Decide and Acknowledge say how a drain goes on, and when it is done.
	Decide      func(drain.Facts, time.Time) drain.Progress
	Acknowledge func(drain.Request, drain.Cordoned, bool) (string, bool)
}

// Real is the core that ships.
func Real() Core {
	return Core{
		Next: rollout.Next, Explain: rollout.Explain,
		Cordon: drain.Cordon, Uncordon: drain.Uncordon, Rest: drain.Node.Rest,
		Decide: drain.Decide, Acknowledge: drain.Acknowledge,
	}
}
