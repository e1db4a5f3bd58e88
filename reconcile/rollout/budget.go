package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxUnavailable reads a pool's maxUnavailable for a pool of that many nodes. Absent means 1; a percentage is of the
// pool's size, rounded down; 0 means 1, so that a small pool moves at all; a negative value stays, and stops the pool.
// The arbiter pool's is always 1.
func MaxUnavailable(pool string, want *intstr.IntOrString, nodes int) (int, error) {
	if want == nil || pool == arbiterPool {
		return 1, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(want, nodes, false)
	if err != nil {
		return 0, fmt.Errorf("reading maxUnavailable %q of MachineConfigPool %q: %w; write a number such as 2, or a percentage such as \"10%%\"", want.String(), pool, err)
	}
	if n == 0 {
		return 1, nil
	}
	return n, nil
}
