package poolstate

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/membership"
)

// ArbiterPool is the pool of the node that completes the quorum of two masters.
const ArbiterPool = "arbiter"

// SelectingAll returns an error for a pool with the selector {} for nodes or MachineConfigs. A user may expect that the
// selector {} selects everything, but it selects nothing. The machine-config-operator has an event with the name
// SelectingAll.
func SelectingAll(pool *mcfgv1.MachineConfigPool) error {
	for _, s := range []struct {
		field    string
		selector *metav1.LabelSelector
	}{{"nodeSelector", pool.Spec.NodeSelector}, {"machineConfigSelector", pool.Spec.MachineConfigSelector}} {
		if s.selector != nil && membership.SelectsNothing(s.selector) {
			return fmt.Errorf("spec.%s of MachineConfigPool %q is {}, which selects nothing here: write matchLabels "+
				"or matchExpressions", s.field, pool.Name)
		}
	}
	return nil
}

// MaxUnavailable returns maxUnavailable for a pool with the given number of nodes. If the pool sets no value, the
// result is 1. A percentage of the pool's size is rounded down. 0 becomes 1, so that the rollout of a small pool
// continues. A negative value stays negative, and stops the rollout of the pool. For the arbiter pool, the result is
// always 1.
func MaxUnavailable(pool string, want *intstr.IntOrString, nodes int) (int, error) {
	if want == nil || pool == ArbiterPool {
		return 1, nil
	}
	n, err := ScaleLimit(want, nodes)
	if err != nil {
		return 0, fmt.Errorf("reading maxUnavailable %q of MachineConfigPool %q: %w; write a number such as 2, or a "+
			"percentage such as \"10%%\"", want.String(), pool, err)
	}
	return n, nil
}

// ScaleLimit converts a number or percentage to a number of nodes, by the rules of MaxUnavailable.
func ScaleLimit(want *intstr.IntOrString, nodes int) (int, error) {
	n, err := intstr.GetScaledValueFromIntOrPercent(want, nodes, false)
	if err == nil && n == 0 {
		n = 1
	}
	return n, err
}

// Left returns how many places of a shared budget are left for a pool that uses the given number of places. The result
// may be negative.
func (t Shared) Left(used int) int { return max(0, t.Max) - t.Used - used }
