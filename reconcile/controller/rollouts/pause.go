package rollouts

import (
	"context"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/nodestate"
)

// endPause resumes a pool whose pause has ended. It returns the time until then for a pause that has an end in the future; else 0. A time
// that cannot be parsed counts as no end.
func (r *Controller) endPause(ctx context.Context, pool *mcfgv1.MachineConfigPool) (time.Duration, error) {
	until := nodestate.ParseTime(pool.Annotations[v1alpha1.PausedUntilAnnotation])
	if !pool.Spec.Paused || until.IsZero() {
		return 0, nil
	}
	if left := until.Sub(r.Now()); left > 0 {
		return left, nil
	}
	before := pool.DeepCopy()
	who := pool.Annotations[v1alpha1.PausedByAnnotation]
	pool.Spec.Paused = false
	delete(pool.Annotations, v1alpha1.PausedByAnnotation)
	delete(pool.Annotations, v1alpha1.PausedUntilAnnotation)
	if err := r.Client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return 0, fmt.Errorf("resuming pool %q: %w", pool.Name, err)
	}
	note := "pool " + pool.Name + " continues, because its pause has ended"
	if who != "" {
		note += "; it was paused by " + who
	}
	r.Events.Send(kube.Event{Object: pool, Reason: "Resumed", Action: "Rollout", Note: note})
	return 0, nil
}
