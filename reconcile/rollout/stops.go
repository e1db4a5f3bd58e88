package rollout

import (
	"context"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// endStops ends the pause and the hold of a pool whose time is over, and returns the time until the next of the two; 0
// for never.
func (r *Controller) endStops(ctx context.Context, pool *mcfgv1.MachineConfigPool) (next time.Duration, err error) {
	for _, end := range []func(context.Context, client.Client, *mcfgv1.MachineConfigPool, time.Time) (time.Duration,
		*kube.Event, error){endPause, endHold} {
		left, ended, err := end(ctx, r.Client, pool, r.Now())
		if err != nil {
			return 0, err
		}
		if ended != nil {
			r.Events.Send(*ended)
		}
		if left > 0 {
			next = sooner(next, left)
		}
	}
	return next, nil
}

// endPause resumes a pool whose pause has ended, and returns the event to send, or the time until a later end,
// otherwise 0. A time that cannot be parsed counts as no end. If the pool is not paused, it removes the time.
func endPause(ctx context.Context, c client.Client, pool *mcfgv1.MachineConfigPool,
	now time.Time,
) (left time.Duration, ended *kube.Event, err error) {
	text := pool.Annotations[v1alpha1.PausedUntilAnnotation]
	// A user has ended the pause: its time must not end the next one.
	if text != "" && !pool.Spec.Paused {
		before := pool.DeepCopy()
		delete(pool.Annotations, v1alpha1.PausedUntilAnnotation)
		if err := c.Patch(ctx, pool, client.MergeFromWithOptions(before,
			client.MergeFromWithOptimisticLock{})); err != nil {
			return 0, nil, fmt.Errorf("removing the end of an earlier pause from pool %q: %w", pool.Name, err)
		}
		return 0, nil, nil
	}
	until := poolstate.ParseTime(text)
	if until.IsZero() {
		return 0, nil, nil
	}
	if left := until.Sub(now); left > 0 {
		return left, nil, nil
	}
	before := pool.DeepCopy()
	who := pool.Annotations[v1alpha1.PausedByAnnotation]
	pool.Spec.Paused = false
	delete(pool.Annotations, v1alpha1.PausedByAnnotation)
	delete(pool.Annotations, v1alpha1.PausedUntilAnnotation)
	if err := c.Patch(ctx, pool, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return 0, nil, fmt.Errorf("resuming pool %q: %w", pool.Name, err)
	}
	note := "pool " + pool.Name + " continues, because its pause has ended"
	if who != "" {
		note += "; it was paused by " + who
	}
	return 0, &kube.Event{Object: pool, Reason: "Resumed", Action: "Rollout", Note: note}, nil
}

// endHold releases a pool whose hold has ended, and returns the event to send, or the time until a later end, otherwise
// 0. A time that cannot be parsed counts as no end. The render controller then renders the pool again.
func endHold(ctx context.Context, c client.Client, pool *mcfgv1.MachineConfigPool,
	now time.Time,
) (left time.Duration, ended *kube.Event, err error) {
	config, who := pool.Annotations[v1alpha1.HoldAnnotation], pool.Annotations[v1alpha1.HeldByAnnotation]
	text := pool.Annotations[v1alpha1.HeldUntilAnnotation]
	until := poolstate.ParseTime(text)
	if text == "" || config != "" && until.IsZero() {
		return 0, nil, nil
	}
	if left := until.Sub(now); config != "" && left > 0 {
		return left, nil, nil
	}
	before := pool.DeepCopy()
	for _, key := range []string{
		v1alpha1.HoldAnnotation, v1alpha1.HeldRevisionAnnotation, v1alpha1.HeldByAnnotation,
		v1alpha1.HeldUntilAnnotation,
	} {
		delete(pool.Annotations, key)
	}
	if config != "" {
		pool.Annotations[v1alpha1.SteeredByAnnotation] = config + " the end of the hold"
	}
	if err := c.Patch(ctx, pool, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return 0, nil, fmt.Errorf("releasing pool %q: %w", pool.Name, err)
	}
	if config == "" { // A user has ended the hold, and the recorded time must not end the next hold.
		return 0, nil, nil
	}
	note := "pool " + pool.Name + " is released from " + config + ", because its hold has ended"
	if who != "" {
		note += "; it was held by " + who
	}
	return 0, &kube.Event{Object: pool, Reason: "Released", Action: "Rollout", Note: note}, nil
}
