package rollout

import (
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// blockers keep nodes from the target.
type blockers struct {
	// for every node, and for those that the target would disrupt
	stops, holds []poolstate.Block
	again        time.Time
}

// verdictBlock is for a halted or reverted rollout.
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
