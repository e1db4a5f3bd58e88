package inspect

import (
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// applying is why the controller neither renders nor rolls out a pool: a GitSource that feeds it is not on the cluster as one
// whole revision. Only the controller compares all objects, so its condition is asked; false where it does not say so.
func (v *poolView) applying() (rollout.Block, bool) {
	c := v.condition(rolloutBlocked)
	if c.Status != corev1.ConditionTrue || c.Reason != string(rollout.CauseApplying) {
		return rollout.Block{}, false
	}
	return rollout.Block{Cause: rollout.CauseApplying, Reason: c.Message}, true
}

// applyingAnswer says what to do about a pool that waits for a whole revision for longer than an apply takes.
func applyingAnswer(b rollout.Block, pool *mcfgv1.MachineConfigPool, sources []v1alpha1.GitSource) Answer {
	a := Answer{Outcome: Blocked, Cause: b.Cause, Reason: b.Reason}
	for i := range sources {
		src := &sources[i]
		switch {
		case src.Spec.Suspend:
			a.Do = append(a.Do, fmt.Sprintf(`kubectl patch gitsource %s --type merge -p '{"spec":{"suspend":false}}'   # puts the commit's objects back; to keep what users changed, push it first`, src.Name))
		case src.Status.Applying != nil || pool.Annotations[v1alpha1.SourceAnnotation] == src.Name:
			a.Do = append(a.Do, "kubectl describe gitsource "+src.Name)
		}
	}
	return a
}
