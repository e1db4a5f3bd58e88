package render

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/source"
)

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

// selectedSources returns the sources that own a selected fragment.
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
