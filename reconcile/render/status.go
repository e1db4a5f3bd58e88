package render

import (
	"context"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

// report writes RenderDegraded and ImageWithoutDigest, and returns the error if a retry may help. If the selected
// MachineConfigs cannot be rendered, report first records the attempt, so that the rollout of the current target
// continues.
func (r *Controller) report(ctx context.Context, f facts, images []string, failed error) error {
	live := &mcfgv1.MachineConfigPool{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: f.pool.Name}, live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if failed != nil && fault.Of(failed, "").Kind != fault.Retry &&
		live.Annotations[v1alpha1.SelectedAnnotation] != f.selectedDigest {
		before := live.DeepCopy()
		kube.SetAnnotation(live, v1alpha1.SelectedAnnotation, f.selectedDigest)
		if err := r.Client.Patch(ctx, live, client.MergeFromWithOptions(before,
			client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("recording what pool %q was rendered from: %w", live.Name, err)
		}
	}
	before := live.DeepCopy()
	live.Status = status.Rendered(before.Status, live.Name, images, failed, r.Now())
	if err := kube.WriteStatus(ctx, r.Client, live, before); err != nil {
		return fmt.Errorf("writing the status of pool %q: %w", live.Name, err)
	}
	if failed != nil && fault.Of(failed, "").Kind == fault.Retry {
		return failed
	}
	return r.recordNotRendered(ctx, f, live, failed)
}

// recordNotRendered records on the pool the revision to which RenderDegraded belongs. recordNotRendered writes the
// revision after the condition, so that a crash never leaves a revision with another revision's reason.
func (r *Controller) recordNotRendered(ctx context.Context, f facts, live *mcfgv1.MachineConfigPool,
	failed error,
) error {
	src, revision := newestSource(f.selectedSources()), ""
	if src == nil {
		src = f.sources[live.Annotations[v1alpha1.SourceAnnotation]]
	}
	if failed != nil && src != nil {
		revision = src.Status.AppliedRevision
	}
	if live.Annotations[v1alpha1.NotRenderedAnnotation] == revision {
		return nil
	}
	before := live.DeepCopy()
	kube.SetAnnotation(live, v1alpha1.NotRenderedAnnotation, revision)
	if err := r.Client.Patch(ctx, live, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording what pool %q could not be rendered from: %w", live.Name, err)
	}
	return nil
}
