package rollout

import (
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// blockers are the reasons not to assign the target to nodes.
type blockers struct {
	// stops are reasons that apply to every node. holds are reasons that apply only to nodes that the target would
	// disrupt.
	stops, holds []poolstate.Block
	again        time.Time
}

// verdictBlock returns the block of a halted or reverted rollout.
func verdictBlock(pool string, r v1alpha1.RolloutRecord) poolstate.Block {
	if r.Verdict == v1alpha1.RolloutReverted {
		return poolstate.Block{
			Cause: poolstate.CauseReverted,
			Reason: fmt.Sprintf("pool %s was reverted from %s to %s: %s", pool,
				r.Target(), r.ReturnsTo(), r.Why),
		}
	}
	return poolstate.Block{
		Cause:  poolstate.CauseHalted,
		Reason: fmt.Sprintf("the rollout of %s is halted: %s", r.Target(), r.Why),
	}
}
