package controller

import (
	"context"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// commitOf is a revision of a source.
type commitOf struct {
	src      *v1alpha1.GitSource
	revision string
}

// remakeFrom fetches a revision's tree, which is on disk as a rule, transpiles and renders it by the very functions that
// did so the first time, and returns the config as an object, annotated with the commit that first gave it.
func (g *Garbage) remakeFrom(ctx context.Context, h render.Holders, pool *mcfgv1.MachineConfigPool, name string, at commitOf) (*mcfgv1.MachineConfig, error) {
	revision, err := source.ParseRevision(at.revision)
	if err != nil {
		return nil, err
	}
	repo, err := g.Source.repository(ctx, at.src)
	if err != nil {
		return nil, fmt.Errorf("opening the repository of GitSource %q: %w", at.src.Name, err)
	}
	tree, err := fetchAgain(ctx, at.src, repo, revision)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", revision.Short(), err)
	}
	res, err := g.Source.Transpiler.FragmentsUntil(tree, ctx.Err)
	if err != nil {
		return nil, fmt.Errorf("transpiling %s: %w", revision.Short(), err)
	}
	if res.Report.Fatal() {
		return nil, fmt.Errorf("transpiling %s: %w", revision.Short(), reportError{res.Report, tree.Commit})
	}
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil {
		return nil, fmt.Errorf("reading the machineConfigSelector of pool %q: %w", pool.Name, err)
	}
	own := fragmentsFor(res, at.src.Name, selector)
	others := layersFor(h.Configs, at.src.Name, selector)
	for _, selected := range [][]*mcfgv1.MachineConfig{slices.Concat(own, others), own} {
		rendered, err := render.Merge(pool.Name, selected, g.Render.Defaults)
		if err != nil || rendered.Name != name {
			continue
		}
		f := renderFacts{pool: pool, selected: selected, sources: map[string]*v1alpha1.GitSource{at.src.Name: bornIn(at.src, pool.Name, name)}}
		return g.Render.object(f, rendered)
	}
	return nil, fmt.Errorf("%s gives pool %s another config today: MachineConfigs that other people or sources made went into the lost one and have changed since, or the selector of the pool, the path of the source or the controller's defaults did",
		revision.Short(), pool.Name)
}

// fetchAgain reads a commit of some time ago: from the disk, or by its hash, or out of the whole history of the ref that
// led there, where a remote gives out no single commits.
func fetchAgain(ctx context.Context, src *v1alpha1.GitSource, repo Repository, revision source.Revision) (source.Tree, error) {
	picked := source.Picked{Ref: revision.Ref, Hash: revision.Hash}
	tree, err := readTree(ctx, src, repo, picked)
	if err == nil || revision.Ref == "" {
		return tree, err
	}
	limited, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	refs, listErr := repo.List(limited)
	if listErr != nil {
		return source.Tree{}, err
	}
	for _, ref := range refs {
		if source.ShortRef(ref.Name) == revision.Ref {
			picked.FullName = ref.Name
			return readTree(ctx, src, repo, picked)
		}
	}
	return source.Tree{}, err
}

// fragmentsFor are the fragments of a commit that a selector takes, as the source would have applied them.
func fragmentsFor(res transpile.Result, owner string, selector labels.Selector) []*mcfgv1.MachineConfig {
	var out []*mcfgv1.MachineConfig
	for _, mc := range transpile.MachineConfigs(res.Fragments) {
		if selector.Empty() || !selector.Matches(labels.Set(mc.Labels)) {
			continue
		}
		mc = mc.DeepCopy()
		metav1.SetMetaDataLabel(&mc.ObjectMeta, v1alpha1.SourceLabel, owner)
		out = append(out, mc)
	}
	return out
}

// layersFor are the MachineConfigs on the cluster that a selector takes and that are not this source's.
func layersFor(configs []mcfgv1.MachineConfig, source string, selector labels.Selector) []*mcfgv1.MachineConfig {
	var out []*mcfgv1.MachineConfig
	for i := range configs {
		mc := &configs[i]
		if !selector.Empty() && selector.Matches(labels.Set(mc.Labels)) && mc.Labels[v1alpha1.SourceLabel] != source {
			out = append(out, mc)
		}
	}
	return out
}
