package garbage

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

// commitOf names a revision of a source.
type commitOf struct {
	src      *v1alpha1.GitSource
	revision string
}

// recreateFrom fetches and transpiles a revision, renders the pool, and returns the config as an object with the commit
// that first produced it. recreateFrom uses the same functions as the source controller and the render controller.
func (g *Controller) recreateFrom(ctx context.Context, h render.Holders, pool *mcfgv1.MachineConfigPool, name string,
	at commitOf,
) (*mcfgv1.MachineConfig, error) {
	revision, err := source.ParseRevision(at.revision)
	if err != nil {
		return nil, err
	}
	res, err := g.Source.Transpile(ctx, at.src, revision)
	if err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil {
		return nil, fmt.Errorf("reading the machineConfigSelector of pool %q: %w", pool.Name, err)
	}
	own := fragmentsFor(res, at.src.Name, selector)
	others := otherConfigs(h.Configs, at.src.Name, selector)
	for _, selected := range [][]*mcfgv1.MachineConfig{slices.Concat(own, others), own} {
		rendered, err := render.Merge(pool.Name, selected, g.Render.Defaults.ForExisting())
		if err != nil {
			continue
		}
		if rendered.Name == name {
			if err := g.writeContents(ctx, res, rendered); err != nil {
				return nil, err
			}
			return g.Render.Object(pool, selected, at.src, rendered)
		}
		if node, ok := rendered.NodeOf(name); ok {
			own, err := rendered.Node(node)
			if err != nil {
				return nil, err
			}
			if err := g.writeContents(ctx, res, own); err != nil {
				return nil, err
			}
			return g.Render.Object(pool, selected, at.src, own)
		}
	}
	return nil, fmt.Errorf("%s no longer renders to config %s for pool %s. The cause is a change of a MachineConfig "+
		"outside of GitSource %s, of the pool's selector, of the source's path, or of the controller's defaults",
		revision.Short(), name, pool.Name, at.src.Name)
}

// fragmentsFor returns the fragments of a commit that a selector matches, in the form in which the source controller
// applies them.
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

// otherConfigs returns the MachineConfigs on the cluster that a selector matches and that this source does not own.
func otherConfigs(configs []mcfgv1.MachineConfig, source string, selector labels.Selector) []*mcfgv1.MachineConfig {
	var out []*mcfgv1.MachineConfig
	for i := range configs {
		mc := &configs[i]
		if !selector.Empty() && selector.Matches(labels.Set(mc.Labels)) && mc.Labels[v1alpha1.SourceLabel] != source {
			out = append(out, mc)
		}
	}
	return out
}
