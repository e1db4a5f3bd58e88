package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/status"
	"github.com/bunsen-os/bunsen/source"
)

// Render makes each pool's rendered config.
//
// Reads: MachineConfig, MachineConfigPool, MachineConfiguration, GitSource.status
// Writes: `rendered-<pool>-<hash>` MachineConfig, pool.spec.configuration, the pool's RenderDegraded condition
type Render struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads past the cache, which has no field managers; nil: nobody knows who changed objects through the API.
	Live client.Reader
	// Renderer merges, and remembers what it parsed.
	Renderer *render.Renderer
	// Defaults of the cluster for what no MachineConfig sets.
	Defaults render.Defaults
	// Version of Bunsen, recorded on what it renders.
	Version string
	// Now is the clock.
	Now func() time.Time
	// Events tells people.
	Events Events
	// Took, where set, is told how long after its commit a new config was rendered.
	Took func(pool string, took time.Duration)

	seen revision.Digests
	// deleted has the last state of standard pools that were deleted, by name, until they are created again.
	deleted sync.Map
}

// renderFacts is everything that a render may look at.
type renderFacts struct {
	pool     *mcfgv1.MachineConfigPool
	selected []*mcfgv1.MachineConfig
	// sources by name, of the selected fragments.
	sources map[string]*v1alpha1.GitSource
	// current is the config that pool.spec.configuration names, nil where there is none.
	current *mcfgv1.MachineConfig
	// overrides say how much nodes take in place.
	overrides policy.Overrides
	// secrets are the paths that the pool, the MachineConfiguration and the selected MachineConfigs mark, as an annotation.
	secrets string
	// unsettled says which source is not on the cluster as one whole revision, or is empty.
	unsettled string
	// digest of the selected MachineConfigs, as SelectedAnnotation has it.
	digest string
}

// Reconcile renders one pool.
func (r *Render) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool := &mcfgv1.MachineConfigPool{}
	if err := r.Client.Get(ctx, req.NamespacedName, pool); err != nil {
		r.Renderer.Forget(req.Name)
		if _, standard := standardPools[req.Name]; standard && apierrors.IsNotFound(err) { // somebody deleted it
			err = createAgain(ctx, r, req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !pool.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if restored, err := restoreStandardPool(ctx, r, pool); restored || err != nil {
		return reconcile.Result{}, err // the event of this write renders the pool
	}
	facts, err := r.gather(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	if facts.unsettled != "" {
		// The informers of other kinds may be late, and the end of their lateness is no event of a pool.
		return reconcile.Result{RequeueAfter: lag}, nil
	}
	if len(facts.selected) == 0 && pool.Spec.Configuration.Name == "" {
		return reconcile.Result{}, r.report(ctx, facts, nil) // nothing is wrong with a pool that nobody has written for yet
	}
	rendered, newNodes, err := r.decide(facts)
	if err == nil {
		err = r.commit(ctx, facts, rendered)
	}
	if err == nil {
		r.tellNewNodes(facts.pool, newNodes)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, err // somebody moved first; that is no failure to tell anybody about
	}
	return reconcile.Result{}, r.report(ctx, facts, err)
}

// gather reads everything once.
func (r *Render) gather(ctx context.Context, pool *mcfgv1.MachineConfigPool) (renderFacts, error) {
	f := renderFacts{pool: pool, sources: map[string]*v1alpha1.GitSource{}}
	// Nothing writes into what the cache has, so it need not be copied; and the Renderer knows it again where it lies.
	all, err := readRevisions(ctx, r.Client, &r.seen)
	if err != nil {
		return f, err
	}
	if live, ok := all.cluster[revision.Key(revision.KindMachineConfigPool, pool.Name)]; ok && live.GetResourceVersion() != pool.ResourceVersion {
		f.unsettled = "the pool has changed since it was read"
		return f, nil
	}
	if f.unsettled, err = revision.Unsettled(pool, all.states); err != nil || f.unsettled != "" {
		return f, err
	}
	for i := range all.sources {
		f.sources[all.sources[i].Name] = &all.sources[i]
	}
	rules := &operatorv1.MachineConfiguration{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: policyName}, rules); client.IgnoreNotFound(err) != nil {
		return f, fmt.Errorf("reading MachineConfiguration %q: %w", policyName, err)
	}
	f.overrides = policy.OverridesOf(rules)
	if f.selected, err = all.selected(pool); err != nil {
		return f, err
	}
	f.secrets = secretsOf(pool, rules, f.selected)
	f.current = all.byName[pool.Spec.Configuration.Name]
	f.digest, err = r.seen.Selected(f.selected)
	return f, err
}

// decide merges, refuses what running nodes cannot take, and returns what only new nodes will get.
func (r *Render) decide(f renderFacts) (rendered render.Rendered, newNodes []policy.Refusal, err error) {
	if len(f.selected) == 0 {
		return rendered, nil, fault.NewWait(v1alpha1.ReasonNoMachineConfigs, fmt.Errorf("no MachineConfig matches its selector any more; its nodes keep %s", f.pool.Spec.Configuration.Name))
	}
	if err := r.left(f); err != nil {
		return rendered, nil, fault.NewStalled(v1alpha1.ReasonSourceDeleted, err)
	}
	rendered, err = r.Renderer.Merge(f.pool.Name, f.selected, r.Defaults)
	if err != nil {
		return rendered, nil, fault.NewStalled(v1alpha1.ReasonInvalidTree, err)
	}
	if f.current == nil || f.current.Name == rendered.Name {
		return rendered, nil, nil
	}
	newNodes, err = r.judge(f, rendered)
	return rendered, newNodes, err
}

// commit puts the rendered config on the cluster and the pool on it, in this order: a pool never names what is not there.
func (r *Render) commit(ctx context.Context, f renderFacts, rendered render.Rendered) error {
	src := newest(f.sourcesOf())
	target, err := target(ctx, r, f, rendered, src)
	if err != nil {
		return err
	}
	mc, err := r.object(f, rendered)
	if err != nil {
		return err
	}
	if len(target.API) > 0 || len(target.After) > 0 {
		setAnnotation(mc, v1alpha1.RequestAnnotation, v1alpha1.ConfigRequest{Config: mc.Name, Requester: target.Requester}.String())
	}
	live := &mcfgv1.MachineConfig{}
	switch err := r.Client.Get(ctx, client.ObjectKeyFromObject(mc), live); {
	case err == nil:
		if err := r.restore(ctx, mc, live); err != nil {
			return err
		}
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading MachineConfig %q: %w", mc.Name, err)
	default:
		if err := r.Client.Create(ctx, mc); err != nil {
			return fmt.Errorf("creating MachineConfig %q: %w", mc.Name, err)
		}
		r.tellRendered(f.pool, mc, rendered)
		if !target.ByAPI() {
			r.took(f, mc)
		}
	}
	return r.point(ctx, f, rendered, target)
}

// restore puts back the content of a rendered config that a user edited, because the name depends on it, and writes the
// marks of secrets that apply now.
func (r *Render) restore(ctx context.Context, want, live *mcfgv1.MachineConfig) error {
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
	setAnnotation(fixed, v1alpha1.SecretPathsAnnotation, marked)
	if err := r.Client.Update(ctx, fixed); err != nil {
		return fmt.Errorf("restoring MachineConfig %q: %w", want.Name, err)
	}
	return nil
}

// point moves pool.spec.configuration; the annotation says for which revision.
func (r *Render) point(ctx context.Context, f renderFacts, rendered render.Rendered, target v1alpha1.PoolTarget) error {
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
	setAnnotation(pool, v1alpha1.SelectedAnnotation, f.digest)
	setAnnotation(pool, v1alpha1.NotRenderedAnnotation, "")
	setAnnotation(pool, v1alpha1.TargetAnnotation, target.String())
	if src := newest(f.sourcesOf()); src != nil {
		metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1alpha1.RevisionAnnotation, src.Status.AppliedRevision)
		metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1alpha1.SourceAnnotation, src.Name)
		setAnnotation(pool, v1alpha1.SourceSpecAnnotation, sourceSpec(src))
	}
	if equality.Semantic.DeepEqual(before, pool) {
		return nil
	}
	if err := r.Client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("pointing pool %q at %q: %w", pool.Name, rendered.Name, err)
	}
	*f.pool = *pool
	return nil
}

// object is the rendered config as an API object, annotated with the commit that produced it.
func (r *Render) object(f renderFacts, rendered render.Rendered) (*mcfgv1.MachineConfig, error) {
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
	mc.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.pool, mcfgv1.GroupVersion.WithKind("MachineConfigPool"))}
	mc.Annotations = map[string]string{
		v1alpha1.GeneratedByAnnotation: r.Version,
		v1alpha1.RendererAnnotation:    r.Version,
		v1alpha1.InputsAnnotation:      string(list),
	}
	setAnnotation(mc, v1alpha1.SecretPathsAnnotation, f.secrets)
	if src := newest(f.sourcesOf()); src != nil {
		for k, v := range commitAnnotations(bornIn(src, f.pool.Name, rendered.Name)) {
			mc.Annotations[k] = v
		}
	}
	return mc, nil
}

// sourcesOf returns the sources that own any selected fragment.
func (f renderFacts) sourcesOf() []*v1alpha1.GitSource {
	var out []*v1alpha1.GitSource
	had := map[string]bool{}
	for _, mc := range f.selected {
		name := mc.Labels[v1alpha1.SourceLabel]
		if src, ok := f.sources[name]; ok && !had[name] {
			had[name] = true
			out = append(out, src)
		}
	}
	return out
}

// newest is the source whose applied commit is the youngest: with several, it is the one that moved last.
func newest(sources []*v1alpha1.GitSource) *v1alpha1.GitSource {
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

// report writes RenderDegraded from the outcome, and returns the error where another try helps. Where the selected
// MachineConfigs cannot be rendered, it first records that these were tried: the config in force is rolled out further.
func (r *Render) report(ctx context.Context, f renderFacts, failed error) error {
	live := &mcfgv1.MachineConfigPool{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: f.pool.Name}, live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if failed != nil && fault.Of(failed, "").Kind != fault.Retry && live.Annotations[v1alpha1.SelectedAnnotation] != f.digest {
		before := live.DeepCopy()
		setAnnotation(live, v1alpha1.SelectedAnnotation, f.digest)
		if err := r.Client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("recording what pool %q was rendered from: %w", live.Name, err)
		}
	}
	before := live.DeepCopy()
	live.Status = status.Rendered(before.Status, live.Name, failed, r.Now())
	if err := writeStatus(ctx, r.Client, live, before); err != nil {
		return fmt.Errorf("writing the status of pool %q: %w", live.Name, err)
	}
	if failed != nil && fault.Of(failed, "").Kind == fault.Retry {
		return failed
	}
	return r.recordNotRendered(ctx, f, live, failed)
}

// recordNotRendered records on the pool the revision to which RenderDegraded belongs. It comes after the condition, so that a
// crash between the two writes leaves no revision beside the reason of another one.
func (r *Render) recordNotRendered(ctx context.Context, f renderFacts, live *mcfgv1.MachineConfigPool, failed error) error {
	src, revision := newest(f.sourcesOf()), ""
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
	setAnnotation(live, v1alpha1.NotRenderedAnnotation, revision)
	if err := r.Client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording what pool %q could not be rendered from: %w", live.Name, err)
	}
	return nil
}

// setAnnotation sets an annotation, or removes it where the value is empty.
func setAnnotation(o metav1.Object, key, value string) {
	annotations := maps.Clone(o.GetAnnotations())
	if value == "" {
		delete(annotations, key)
	} else {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	o.SetAnnotations(annotations)
}
