package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/source"
	operatorv1 "github.com/openshift/api/operator/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/pools"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/status"
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

// SetupWithManager renders a pool again after each change that its config depends on.
func (r *Controller) SetupWithManager(mgr ctrl.Manager, render reconcile.Reconciler) error {
	every := kube.EveryPool(r.Client)
	return ctrl.NewControllerManagedBy(mgr).Named("render").For(&mcfgv1.MachineConfigPool{},
		builder.WithPredicates(r.deleted.Predicate(), kube.PoolSettingsChanged(nil))).
		Watches(&mcfgv1.MachineConfig{}, every).Watches(&v1alpha1.GitSource{}, every).Complete(render)
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
		return r.finish(ctx, facts, heldImages(facts), r.hold(ctx, facts))
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
	return r.finish(ctx, facts, rendered.ImagesWithoutDigest(), err)
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

// reportNewNodesOnly reports which parts of a new config only new nodes of the pool get.
func reportNewNodesOnly(events kube.Events, pool *mcfgv1.MachineConfigPool, newNodes []disruption.Refusal) {
	if len(newNodes) == 0 {
		return
	}
	lines := make([]string, len(newNodes))
	for i, n := range newNodes {
		lines[i] = n.Field + ": " + n.Why
	}
	events.Send(kube.Event{
		Object: pool, Warning: true, Reason: "NewNodesOnly", Action: "Render",
		Note: strings.Join(lines, "; "),
	})
}

// finish reports the result of a render.
func (r *Controller) finish(ctx context.Context, f facts, images []string, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, err // A conflict is no failure: another writer was faster.
	}
	result := reconcile.Result{}
	if missing := new(missingContentError); errors.As(err, &missing) {
		result.RequeueAfter = contentInterval
	}
	return result, r.report(ctx, f, images, err)
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

// facts has everything on which the config of a pool depends.
type facts struct {
	pool     *mcfgv1.MachineConfigPool
	selected []*mcfgv1.MachineConfig
	// sources are the sources of the selected fragments, by name.
	sources map[string]*v1alpha1.GitSource
	// current is the config that pool.spec.configuration names; nil if it does not exist.
	current *mcfgv1.MachineConfig
	// byName has all MachineConfigs by name.
	byName map[string]*mcfgv1.MachineConfig
	// overrides allow changes that a running node would refuse without them.
	overrides disruption.Overrides
	// secrets are the secret paths of the pool, the MachineConfiguration and the selected MachineConfigs, in the form
	// of the annotation.
	secrets string
	// unsettled is why the pool must not be rendered yet; otherwise empty. For example, the objects of a source do not
	// belong to one whole revision.
	unsettled string
	// selectedDigest is the digest of the selected MachineConfigs in the form of SelectedAnnotation.
	selectedDigest string
}

// gather reads the facts of a pool.
func (r *Controller) gather(ctx context.Context, pool *mcfgv1.MachineConfigPool) (facts, error) {
	f := facts{pool: pool, sources: map[string]*v1alpha1.GitSource{}}
	// gather does not copy the cached objects, because no code changes them.
	all, why, err := revision.Settled(ctx, r.Client, pool, &r.seen)
	if f.unsettled = why; err != nil || why != "" {
		return f, err
	}
	if live, ok := all.Cluster[revision.Key(revision.KindMachineConfigPool, pool.Name)]; ok &&
		live.GetResourceVersion() != pool.ResourceVersion {
		f.unsettled = "the pool has changed since it was read"
		return f, nil
	}
	for i := range all.Sources {
		f.sources[all.Sources[i].Name] = &all.Sources[i]
	}
	rules := &operatorv1.MachineConfiguration{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: kube.DisruptionPolicyName}, rules); client.IgnoreNotFound(
		err) != nil {
		return f, fmt.Errorf("reading MachineConfiguration %q: %w", kube.DisruptionPolicyName, err)
	}
	f.overrides = disruption.OverridesOf(rules)
	if f.selected, err = all.Selected(pool); err != nil {
		return f, err
	}
	f.secrets = secretPaths(pool, rules, f.selected)
	f.byName, f.current = all.ByName, all.ByName[pool.Spec.Configuration.Name]
	f.selectedDigest, err = r.seen.Selected(f.selected)
	return f, err
}

// secretPaths joins the secret paths of all objects that concern a pool. secretPaths ignores invalid patterns in
// annotations that users set through the API. In a repository, the check of a commit rejects invalid patterns.
func secretPaths(pool, rules client.Object, selected []*mcfgv1.MachineConfig) string {
	objects := []client.Object{pool, rules}
	for _, mc := range selected {
		objects = append(objects, mc)
	}
	var all secretmask.Paths
	for _, o := range objects {
		paths, _ := secretmask.ParsePaths(o.GetAnnotations()[v1alpha1.SecretPathsAnnotation])
		all = append(all, paths...)
	}
	return secretmask.Join(all)
}

// selectedSources returns the sources that own a selected fragment, by name: of two that applied a commit in the same
// second, each look then finds the same newest one.
func (f facts) selectedSources() []*v1alpha1.GitSource {
	var out []*v1alpha1.GitSource
	had := map[string]bool{}
	for _, mc := range f.selected {
		name := mc.Labels[v1alpha1.SourceLabel]
		if src, ok := f.sources[name]; ok && !had[name] {
			had[name] = true
			out = append(out, src)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.GitSource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// newestSource is the source with the latest applied commit.
func newestSource(sources []*v1alpha1.GitSource) *v1alpha1.GitSource {
	var out *v1alpha1.GitSource
	for _, src := range sources {
		if src.Status.AppliedCommit == nil {
			continue
		}
		if out == nil || out.Status.AppliedCommit.Time.Before(&src.Status.AppliedCommit.Time) {
			out = src
		}
	}
	return out
}

// targetFacts returns the inputs from which a pool is rendered. The parameter was is the earlier record of the pool.
func (r *Controller) targetFacts(f facts, was v1alpha1.PoolTarget) (revision.TargetFacts, error) {
	inputs, err := r.seen.Inputs(f.selected)
	if err != nil {
		return revision.TargetFacts{}, err
	}
	facts := revision.TargetFacts{
		Pool: f.pool.Name, Sources: map[string]string{}, Inputs: inputs,
		ReleasedBy: poolstate.RequestedBy(f.pool, was.Config),
	}
	for name, owner := range f.sources {
		_, before := was.Sources[name]
		gives := slices.ContainsFunc(inputs, func(in v1alpha1.TargetInput) bool { return in.Source == name })
		if before || gives {
			facts.Sources[name] = owner.Status.AppliedRevision
		}
	}
	return facts, nil
}

// renderedFrom returns the annotations of the pool that name the source and the revision of its config.
func (f facts) renderedFrom() map[string]string {
	mc := f.byName[f.pool.Annotations[v1alpha1.HoldAnnotation]]
	if mc != nil {
		at, ok := f.heldRevision(mc)
		if !ok {
			at.Revision = mc.Annotations[v1alpha1.RevisionAnnotation]
		}
		return map[string]string{
			v1alpha1.RevisionAnnotation: at.Revision,
			v1alpha1.SourceAnnotation:   mc.Annotations[v1alpha1.SourceAnnotation],
		}
	}
	src := newestSource(f.selectedSources())
	if src == nil {
		return nil
	}
	return map[string]string{
		v1alpha1.RevisionAnnotation: src.Status.AppliedRevision,
		v1alpha1.SourceAnnotation:   src.Name, v1alpha1.SourceSpecAnnotation: sourceSpec(src),
	}
}

// sourceSpec returns the spec of a source in the form of SourceSpecAnnotation.
func sourceSpec(src *v1alpha1.GitSource) string {
	spec := *src.Spec.DeepCopy()
	spec.URL, spec.Suspend, spec.SuspendUntil = source.Redact(spec.URL), false, nil
	text, err := json.Marshal(spec)
	if err != nil {
		return "" // There is no error, because texts and numbers can always be encoded.
	}
	return string(text)
}
