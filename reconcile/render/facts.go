package render

import (
	"context"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/revision"
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
