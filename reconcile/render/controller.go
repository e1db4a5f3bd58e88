package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/pools"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/status"
	"github.com/bunsen-os/bunsen/source"
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
		Watches(&mcfgv1.MachineConfig{}, every).Watches(&v1alpha1.GitSource{}, every).
		Watches(&operatorv1.MachineConfiguration{}, every, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Complete(render)
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
	if err := r.mark(ctx, facts); err != nil {
		return reconcile.Result{}, err
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

// mark writes the secret paths of a pool on it, after it added them to the configs that were rendered before: a mark
// may be newer than the configs that nodes run and servers serve, and it counts although the newest config cannot be
// rendered. Paths that are secret no more stay on earlier configs.
func (r *Controller) mark(ctx context.Context, f facts) error {
	if f.pool.Annotations[v1alpha1.PoolSecretPathsAnnotation] == f.secrets {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(f.byName)) {
		mc := f.byName[name]
		all := secretPaths([]*mcfgv1.MachineConfig{mc}, f.secrets)
		if !metav1.IsControlledBy(mc, f.pool) || all == mc.Annotations[v1alpha1.SecretPathsAnnotation] {
			continue
		}
		marked := mc.DeepCopy()
		kube.SetAnnotation(marked, v1alpha1.SecretPathsAnnotation, all)
		if err := r.Client.Patch(ctx, marked, client.MergeFrom(mc)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing the secret paths of MachineConfig %q: %w", name, err)
		}
		f.byName[name] = marked
	}
	pool := f.pool.DeepCopy()
	kube.SetAnnotation(pool, v1alpha1.PoolSecretPathsAnnotation, f.secrets)
	if err := r.Client.Patch(ctx, pool, client.MergeFromWithOptions(f.pool.DeepCopy(),
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the secret paths of pool %q: %w", pool.Name, err)
	}
	*f.pool = *pool
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
	f.secrets = secretPaths(f.selected, pool.Annotations[v1alpha1.SecretPathsAnnotation],
		rules.Annotations[v1alpha1.SecretPathsAnnotation])
	f.byName, f.current = all.ByName, all.ByName[pool.Spec.Configuration.Name]
	f.selectedDigest, err = r.seen.Selected(f.selected)
	return f, err
}

// secretPaths joins the secret paths of MachineConfigs with more annotations. It ignores invalid patterns in
// annotations that users set through the API. In a repository, the check of a commit rejects invalid patterns.
func secretPaths(selected []*mcfgv1.MachineConfig, more ...string) string {
	for _, mc := range selected {
		more = append(more, mc.Annotations[v1alpha1.SecretPathsAnnotation])
	}
	var all secretmask.Paths
	for _, text := range more {
		paths, _ := secretmask.ParsePaths(text)
		all = append(all, paths...)
	}
	return secretmask.Join(all)
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

// publish first writes the rendered config, and then sets its name in the pool, so that the config of a pool always
// exists.
func (r *Controller) publish(ctx context.Context, f facts, rendered Rendered) error {
	src := newestSource(f.selectedSources())
	target, err := r.newTarget(ctx, f, rendered, src)
	if err != nil {
		return err
	}
	mc, err := r.object(f, rendered)
	if err != nil {
		return err
	}
	if len(target.API) > 0 || len(target.After) > 0 {
		kube.SetAnnotation(mc, v1alpha1.RequestAnnotation, v1alpha1.ConfigRequest{
			Config:    mc.Name,
			Requester: target.Requester,
		}.String())
	}
	if err := publishContents(ctx, r.Contents, rendered); err != nil {
		return err
	}
	if err := r.publishNodes(ctx, f, rendered); err != nil {
		return err
	}
	live := &mcfgv1.MachineConfig{}
	switch err := r.Client.Get(ctx, client.ObjectKeyFromObject(mc), live); {
	case err == nil:
		if err := r.restoreContent(ctx, mc, live); err != nil {
			return err
		}
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading MachineConfig %q: %w", mc.Name, err)
	default:
		if err := r.Client.Create(ctx, mc); err != nil {
			return fmt.Errorf("creating MachineConfig %q: %w", mc.Name, err)
		}
		reportRendered(r.Events, f.pool, mc, rendered)
		if !target.ByAPI() {
			r.measure(f, mc)
		}
	}
	return r.setConfiguration(ctx, f, rendered, target)
}

// object returns the rendered config as an API object, annotated with the commit that produced it.
func (r *Controller) object(f facts, rendered Rendered) (*mcfgv1.MachineConfig, error) {
	inputs := map[string]string{}
	for _, mc := range f.selected {
		digest, err := r.seen.Of(mc)
		if err != nil {
			return nil, err
		}
		inputs[mc.Name] = digest
	}
	list, err := json.Marshal(inputs)
	if err != nil {
		return nil, fmt.Errorf("writing the inputs of %q: %w", rendered.Name, err)
	}
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: rendered.Name}, Spec: rendered.Spec}
	mc.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.pool,
		mcfgv1.GroupVersion.WithKind("MachineConfigPool"))}
	mc.Annotations = map[string]string{
		v1alpha1.GeneratedByAnnotation: r.Version,
		v1alpha1.RendererAnnotation:    r.Version,
		v1alpha1.InputsAnnotation:      string(list),
	}
	kube.SetAnnotation(mc, v1alpha1.SecretPathsAnnotation, f.secrets)
	kube.SetAnnotation(mc, v1alpha1.NodeConfigsAnnotation, rendered.Nodes.String())
	kube.SetAnnotation(mc, v1alpha1.VariantOfAnnotation, rendered.VariantOf)
	if src := newestSource(f.selectedSources()); src != nil {
		for k, v := range commitAnnotations(atFirstCommit(src, f.pool.Name, rendered.Name)) {
			mc.Annotations[k] = v
		}
	}
	return mc, nil
}

// Object returns a rendered config as an API object, annotated with the commit of src that first produced it for the
// pool.
func (r *Controller) Object(pool *mcfgv1.MachineConfigPool, selected []*mcfgv1.MachineConfig, src *v1alpha1.GitSource,
	rendered Rendered,
) (*mcfgv1.MachineConfig, error) {
	sources := map[string]*v1alpha1.GitSource{src.Name: atFirstCommit(src, pool.Name, rendered.Name)}
	f := facts{pool: pool, selected: selected, sources: sources}
	f.secrets = secretPaths(selected, pool.Annotations[v1alpha1.PoolSecretPathsAnnotation])
	return r.object(f, rendered)
}

// atFirstCommit returns the source with the AppliedCommit that first produced this rendered config for a pool.
// atFirstCommit returns the source unchanged if its history does not contain that commit.
func atFirstCommit(src *v1alpha1.GitSource, pool, name string) *v1alpha1.GitSource {
	for i := len(src.Status.History) - 1; i >= 0; i-- {
		if entry := &src.Status.History[i]; entry.Pools[pool] == name {
			out := src.DeepCopy()
			out.Status.AppliedCommit = entry.CommitInfo.DeepCopy()
			return out
		}
	}
	return src
}

func commitAnnotations(src *v1alpha1.GitSource) map[string]string {
	c := src.Status.AppliedCommit
	out := map[string]string{
		v1alpha1.SourceAnnotation:        src.Name,
		v1alpha1.RepositoryAnnotation:    source.Redact(src.Spec.URL),
		v1alpha1.RevisionAnnotation:      c.Revision,
		v1alpha1.CommitAuthorAnnotation:  c.Author,
		v1alpha1.CommitSubjectAnnotation: c.Subject,
		v1alpha1.CommitTimeAnnotation:    c.Time.UTC().Format(time.RFC3339),
	}
	if c.VerifiedBy != "" {
		out[v1alpha1.VerifiedByAnnotation] = c.VerifiedBy
	}
	return out
}

// restoreContent restores the content of a rendered config that a user edited, because the name is a hash of the
// content. restoreContent also updates the annotation with secret paths.
func (r *Controller) restoreContent(ctx context.Context, want, live *mcfgv1.MachineConfig) error {
	a, err := revision.Digest(want)
	if err != nil {
		return err
	}
	b, err := r.seen.Of(live)
	marked := want.Annotations[v1alpha1.SecretPathsAnnotation]
	if err != nil || a == b && live.Annotations[v1alpha1.SecretPathsAnnotation] == marked {
		return err
	}
	fixed := live.DeepCopy()
	fixed.Spec = want.Spec
	kube.SetAnnotation(fixed, v1alpha1.SecretPathsAnnotation, marked)
	if err := r.Client.Update(ctx, fixed); err != nil {
		return fmt.Errorf("restoring MachineConfig %q: %w", want.Name, err)
	}
	return nil
}

// setConfiguration sets pool.spec.configuration, and the annotations that record the revision and the requester.
func (r *Controller) setConfiguration(ctx context.Context, f facts, rendered Rendered,
	target v1alpha1.PoolTarget,
) error {
	before := f.pool.DeepCopy()
	pool := f.pool.DeepCopy()
	pool.Spec.Configuration.Name = rendered.Name
	pool.Spec.Configuration.Kind = revision.KindMachineConfig
	pool.Spec.Configuration.APIVersion = mcfgv1.GroupVersion.String()
	pool.Spec.Configuration.Source = nil
	for _, name := range rendered.Inputs {
		pool.Spec.Configuration.Source = append(pool.Spec.Configuration.Source, corev1.ObjectReference{
			APIVersion: mcfgv1.GroupVersion.String(), Kind: revision.KindMachineConfig, Name: name,
		})
	}
	kube.SetAnnotation(pool, v1alpha1.SelectedAnnotation, f.selectedDigest)
	kube.SetAnnotation(pool, v1alpha1.NotRenderedAnnotation, "")
	kube.SetAnnotation(pool, v1alpha1.TargetAnnotation, target.String())
	for key, value := range f.renderedFrom() {
		kube.SetAnnotation(pool, key, value)
	}
	if equality.Semantic.DeepEqual(before, pool) {
		return nil
	}
	if err := r.Client.Patch(ctx, pool, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("pointing pool %q at %q: %w", pool.Name, rendered.Name, err)
	}
	*f.pool = *pool
	return nil
}

// reportRendered reports a new rendered config, with the warnings and notices of the merge.
func reportRendered(events kube.Events, pool *mcfgv1.MachineConfigPool, mc *mcfgv1.MachineConfig,
	rendered Rendered,
) {
	from := fmt.Sprintf("%s %q", kube.ShortRevision(mc.Annotations[v1alpha1.RevisionAnnotation]),
		mc.Annotations[v1alpha1.CommitSubjectAnnotation])
	if asked := v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], mc.Name); len(asked.API) > 0 ||
		len(asked.After) > 0 {
		from = kube.RequesterText(asked)
	}
	events.Send(kube.Event{
		Object: pool, Related: mc, Reason: "RenderedConfigGenerated", Action: "Render",
		Note: mc.Name + " from " + from,
	})
	for _, w := range rendered.Warnings {
		events.Send(kube.Event{
			Object: pool, Related: mc, Warning: true, Reason: "RenderWarning", Action: "Render",
			Note: w,
		})
	}
	if n := len(rendered.Notices); n > 0 {
		lines := make([]string, n)
		for i, notice := range rendered.Notices {
			lines[i] = notice.String()
		}
		events.Send(kube.Event{
			Object: pool, Related: mc, Reason: "RenderNotice", Action: "Render",
			Note: "several MachineConfigs set the same thing: " + strings.Join(lines, "; "),
		})
	}
}

// measure reports the time from a commit to the first config that was rendered from it.
func (r *Controller) measure(f facts, mc *mcfgv1.MachineConfig) {
	src := newestSource(f.selectedSources())
	if r.ReportLatency != nil && src != nil &&
		src.Status.AppliedCommit.Revision == mc.Annotations[v1alpha1.RevisionAnnotation] {
		r.ReportLatency(f.pool.Name, r.Now().Sub(src.Status.AppliedCommit.Time.Time))
	}
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
