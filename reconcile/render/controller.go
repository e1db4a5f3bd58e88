package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/reconcile/status"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/pools"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Controller creates each pool's rendered config.
//
// Reads: MachineConfig, MachineConfigPool, MachineConfiguration, GitSource.status
// Writes: large files in the registry, `rendered-<pool>-<hash>` MachineConfig, pool.spec.configuration, the pool's
// RenderDegraded condition
type Controller struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads field managers from the API server, because the cache does not contain them. If Live is nil, the
	// controller records no author for changes through the API.
	Live client.Reader
	// Contents has the large files of rendered configs.
	Contents *content.Store
	// Renderer merges MachineConfigs, and caches the results.
	Renderer *Renderer
	// Defaults are the cluster's values for fields that no MachineConfig sets.
	Defaults Defaults
	// Version is the version of Bunsen that the controller records on rendered configs.
	Version string
	// Now is the clock.
	Now func() time.Time
	// Events sends events.
	Events kube.Events
	// ReportLatency, if set, receives how long after its commit a new config was rendered.
	ReportLatency func(pool string, took time.Duration)

	seen    revision.Digests
	deleted pools.Deleted
}

// Reconcile renders one pool.
func (r *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool := &mcfgv1.MachineConfigPool{}
	if err := r.Client.Get(ctx, req.NamespacedName, pool); err != nil {
		r.Renderer.Forget(req.Name)
		if pools.ContainsStandard(req.Name) && apierrors.IsNotFound(err) { // A user has deleted the pool.
			err = r.deleted.CreateAgain(ctx, r.Client, r.Events, req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !pool.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if restored, err := pools.RestoreStandard(ctx, r.Client, r.Live, r.Events, pool); restored || err != nil {
		return reconcile.Result{}, err // The event of this write triggers the next reconciliation.
	}
	facts, err := r.gather(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	if facts.unsettled != "" {
		// Caches of other kinds may be stale, and no event of a pool reports when they are up to date.
		return reconcile.Result{RequeueAfter: kube.CacheLag}, nil
	}
	if pool.Annotations[v1alpha1.HoldAnnotation] != "" {
		return finish(ctx, r, facts, heldImages(facts), hold(ctx, r, facts))
	}
	if len(facts.selected) == 0 && pool.Spec.Configuration.Name == "" {
		// A pool without MachineConfigs is valid and has no config.
		return reconcile.Result{}, r.report(ctx, facts, nil, nil)
	}
	rendered, newNodes, err := r.decide(facts)
	if err == nil {
		err = r.publish(ctx, facts, rendered)
	}
	if err == nil {
		reportNewNodesOnly(r.Events, facts.pool, newNodes)
	}
	return finish(ctx, r, facts, rendered.ImagesWithoutDigest(), err)
}

// hold sets the pool's config to the config at which a user holds the pool. hold needs neither the repository nor the
// MachineConfigs of the revision, because the rendered config has the whole content. If the held config cannot be used,
// the pool keeps its present config.
func hold(ctx context.Context, r *Controller, f facts) error {
	name := f.pool.Annotations[v1alpha1.HoldAnnotation]
	mc, ok := f.byName[name]
	if !ok {
		return heldError(f, "it does not exist")
	}
	rendered, err := heldConfig(f.pool, mc)
	if err != nil {
		return err
	}
	for _, own := range rendered.Nodes.All() {
		if f.byName[own] == nil {
			return heldError(f, "the controller has deleted the configs of its single nodes, such as "+own+
				": revert the commit in git instead")
		}
	}
	if f.current != nil && f.current.Name != name {
		if _, err := r.checkRefusals(f, rendered); err != nil {
			return err
		}
	}
	if err := publishContents(ctx, r.Contents, rendered); err != nil {
		return heldError(f, err.Error())
	}
	before := f.pool.Spec.Configuration.Name
	if err := r.setConfiguration(ctx, f, rendered, heldTarget(f, mc)); err != nil {
		return err
	}
	if before != name {
		r.Events.Send(kube.Event{
			Object: f.pool, Related: mc, Reason: "Held", Action: "Render",
			Note: fmt.Sprintf("a user holds pool %s at %s: %s", f.pool.Name, name,
				f.pool.Annotations[v1alpha1.HeldByAnnotation]),
		})
	}
	return nil
}

// heldTarget returns the record of a held pool. The record keeps the inputs of the last render, so that the render
// after the release finds the changes since then.
func heldTarget(f facts, mc *mcfgv1.MachineConfig) v1alpha1.PoolTarget {
	t, err := v1alpha1.ParsePoolTarget(f.pool.Annotations[v1alpha1.TargetAnnotation])
	if err != nil {
		t = v1alpha1.PoolTarget{}
	}
	t.Held = true
	if t.Config == mc.Name {
		return t
	}
	// The caller has read it before.
	nodes, _ := v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation])
	t.Config, t.Nodes, t.Before, t.Commit = mc.Name, len(nodes.Nodes), "", v1alpha1.Requester{}
	t.Requester = v1alpha1.Requester{
		Revision: mc.Annotations[v1alpha1.RevisionAnnotation],
		Subject:  mc.Annotations[v1alpha1.CommitSubjectAnnotation],
		Author:   mc.Annotations[v1alpha1.CommitAuthorAnnotation],
	}
	if asked := v1alpha1.RequesterOf(f.pool.Annotations, mc.Name); asked.Revision != "" || len(asked.API) > 0 {
		t.Requester = asked
	}
	if at, ok := f.heldRevision(mc); ok {
		t.Requester = v1alpha1.Requester{Revision: at.Revision, Subject: at.Subject, Author: at.Author}
	}
	t.Cause, t.By = v1alpha1.RolloutCauseHold, poolstate.HeldBy(f.pool)
	return t
}

// heldConfig reads a rendered config of the pool. The controller must have rendered the config for this pool, and its
// name must be the hash of its content. So a user with the right to hold a pool cannot also write configs.
func heldConfig(pool *mcfgv1.MachineConfigPool, mc *mcfgv1.MachineConfig) (Rendered, error) {
	f := facts{pool: pool}
	owner := metav1.GetControllerOfNoCopy(mc)
	if owner == nil || owner.UID != pool.UID || mc.Annotations[v1alpha1.GeneratedByAnnotation] == "" ||
		v1alpha1.RenderedPool(mc.Name) != pool.Name {
		return Rendered{}, heldError(f, "it is not a rendered config of this pool")
	}
	spec, err := machineconfig.KeysOnce(mc.Spec)
	if err != nil {
		return Rendered{}, heldError(f, err.Error())
	}
	if err := machineconfig.CheckName(pool.Name, mc, spec); err != nil {
		return Rendered{}, heldError(f, "a user edited its content")
	}
	if mc.Annotations[v1alpha1.VariantOfAnnotation] != "" {
		return Rendered{}, heldError(f, "it is the config of single nodes, and not of the pool")
	}
	nodes, err := v1alpha1.ParseNodeConfigs(mc.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		return Rendered{}, heldError(f, err.Error())
	}
	config, err := machineconfig.Parse(spec)
	if err != nil {
		return Rendered{}, heldError(f, err.Error())
	}
	inputs := map[string]string{}
	if text := mc.Annotations[v1alpha1.InputsAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &inputs); err != nil {
			return Rendered{}, heldError(f, "reading annotation "+v1alpha1.InputsAnnotation+": "+err.Error())
		}
	}
	return Rendered{
		Pool: pool.Name, Name: mc.Name, Nodes: nodes, Spec: spec, Config: config,
		Inputs: slices.Sorted(maps.Keys(inputs)),
	}, nil
}

// heldImages returns which images of the held config have no digest.
func heldImages(f facts) []string {
	mc, ok := f.byName[f.pool.Annotations[v1alpha1.HoldAnnotation]]
	if !ok {
		return nil
	}
	return Rendered{Name: mc.Name, Config: machineconfig.Config{
		OSImageURL: mc.Spec.OSImageURL, ExtensionsImage: mc.Spec.BaseOSExtensionsContainerImage,
	}}.ImagesWithoutDigest()
}

// finish reports the result of a render.
func finish(ctx context.Context, r *Controller, f facts, images []string, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, err // A conflict is no failure: another writer was faster.
	}
	result := reconcile.Result{}
	if missing := new(missingContentError); errors.As(err, &missing) {
		result.RequeueAfter = contentInterval
	}
	return result, r.report(ctx, f, images, err)
}

// SetupWithManager renders a pool again after each change that its config depends on.
func (r *Controller) SetupWithManager(mgr ctrl.Manager, render reconcile.Reconciler) error {
	every := kube.EveryPool(r.Client)
	return ctrl.NewControllerManagedBy(mgr).Named("render").For(&mcfgv1.MachineConfigPool{},
		builder.WithPredicates(r.deleted.Predicate(), kube.PoolSettingsChanged(nil))).
		Watches(&mcfgv1.MachineConfig{}, every).Watches(&v1alpha1.GitSource{}, every).Complete(render)
}

// decide merges the selected MachineConfigs, and checks whether running nodes would refuse the change to the result.
// decide also returns the changes that only new nodes get.
func (r *Controller) decide(f facts) (rendered Rendered, newNodes []disruption.Refusal, err error) {
	if len(f.selected) == 0 {
		return rendered, nil, fault.NewWait(v1alpha1.ReasonNoMachineConfigs,
			fmt.Errorf("no MachineConfig matches its selector any more; its nodes keep %s",
				f.pool.Spec.Configuration.Name))
	}
	if err := r.checkAbandoned(f); err != nil {
		return rendered, nil, fault.NewStalled(v1alpha1.ReasonSourceDeleted, err)
	}
	rendered, err = r.Renderer.Merge(f.pool.Name, f.selected, r.Defaults.For(f.pool.Annotations))
	if err != nil {
		return rendered, nil, fault.NewStalled(v1alpha1.ReasonInvalidTree, err)
	}
	if f.current == nil || f.current.Name == rendered.Name {
		return rendered, nil, nil
	}
	newNodes, err = r.checkRefusals(f, rendered)
	return rendered, newNodes, err
}

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

// publishContents writes the files that a render moved to the content store, and renews those that its MachineConfigs
// have there. If the content store lacks one of them, no node can run the config, so publishContents returns an error.
func publishContents(ctx context.Context, store *content.Store, rendered Rendered) error {
	paths, hashes := map[string]string{}, []string(nil)
	for _, f := range machineconfig.RemoteFiles(rendered.Config) {
		if hash, stored := machineconfig.StoredHash(f.URL); stored && paths[hash] == "" {
			paths[hash] = f.Path
			hashes = append(hashes, hash)
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	if err := store.Write(ctx, moved(rendered.Contents)); err != nil {
		return err
	}
	missing := store.Require(ctx, hashes)
	if len(missing) == 0 {
		return nil
	}
	var bad []error
	for _, hash := range missing {
		of := ""
		if name := rendered.Winner(disruption.KindFile, paths[hash]); name != "" {
			of = " of MachineConfig " + name
		}
		bad = append(bad, fmt.Errorf("file %s%s names %s, which the content store does not have: put the file "+
			"into the repository, and name it with Butane's `local:`", paths[hash], of,
			machineconfig.ShownAddress(machineconfig.StoredSource(hash))))
	}
	return fault.NewStalled(v1alpha1.ReasonInvalidTree, &missingContentError{errors.Join(bad...)})
}

// missingContentError names the files of a config that the content store does not have.
type missingContentError struct{ error }

// contentInterval is how often the controller renders a pool whose files are missing. No event says that the content
// store has them now.
const contentInterval = 10 * time.Second

// moved returns each hash of the moved files once.
func moved(files []machineconfig.LargeFile) (out []machineconfig.LargeFile) {
	seen := map[string]bool{}
	for _, f := range files {
		if !seen[f.Hash] {
			seen[f.Hash] = true
			out = append(out, f)
		}
	}
	return out
}
