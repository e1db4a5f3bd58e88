package render

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"

	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/source"
)

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

// publish first writes the rendered config, and then sets its name in the pool, so that the config of a pool always
// exists.
func (r *Controller) publish(ctx context.Context, f facts, rendered Rendered) error {
	src := newestSource(f.selectedSources())
	target, err := newTarget(ctx, r, f, rendered, src)
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
	if err := publishNodes(ctx, r, f, rendered); err != nil {
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
	return r.object(facts{pool: pool, selected: selected, sources: sources}, rendered)
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
