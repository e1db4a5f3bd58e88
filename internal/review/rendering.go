package review

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Renderings renders trees with shared caches, so that the second side of a comparison costs only its differences.
// Goroutines may use it concurrently. The zero value is ready to use; do not copy it after the first use.
type Renderings struct {
	// Caches, which the caller configures before the first use.
	Transpiler transpile.Transpiler
	Renderer   render.Renderer
	// Defaults of the cluster. AllowLargeFiles sets LargeFiles.
	Defaults render.Defaults
}

// AllowLargeFiles says whether the cluster has a content store.
func (r *Renderings) AllowLargeFiles(allow bool) {
	r.Transpiler.LargeFiles, r.Defaults.LargeFiles = allow, allow
}

// Render transpiles a tree and renders its pools; none if the report is fatal. It ends with an error of stop, unless
// that is nil.
func (r *Renderings) Render(tree source.Tree, stop func() error) (transpile.Result, Rendering, error) {
	res, err := r.Transpiler.FragmentsUntil(tree, stop)
	if err != nil || res.Report.Fatal() {
		return res, Rendering{}, err
	}
	return res, Render(res, &r.Renderer, r.Defaults), nil
}

// Rendering has the configs that one tree renders to, pool by pool, without a cluster.
type Rendering struct {
	Pools []PoolRendering
	// Err is about all pools that cannot be rendered. Pools has the others.
	Err error

	// without its pools
	side Side
	// of the large files of documents
	sizes DownloadSizes
}

// PoolRendering is one pool of a Rendering.
type PoolRendering struct {
	// Rendered is exactly what the controller would create from these inputs.
	Rendered render.Rendered
	// Secrets are marked in the tree.
	Secrets secretmask.Paths

	places *places
}

// Render does what the controllers do: it selects the fragments of each pool and merges them, without MachineConfigs
// that users created through the API.
func Render(res transpile.Result, r *render.Renderer, d render.Defaults) Rendering {
	return RenderWith(res, r, d, nil)
}

// RenderWith is Render with additional MachineConfigs of the cluster for the pools that select them. A fragment
// replaces one of the same name.
func RenderWith(res transpile.Result, r *render.Renderer, d render.Defaults,
	layers []*mcfgv1.MachineConfig,
) Rendering {
	return job{result: res, renderer: r, defaults: d, layers: layers}.run()
}

type job struct {
	result   transpile.Result
	renderer *render.Renderer
	defaults render.Defaults
	// additional MachineConfigs of the cluster
	layers []*mcfgv1.MachineConfig
}

func (j job) run() Rendering {
	side, err := sideOf(j.result)
	out, errs := Rendering{side: side}, []error{err}
	for _, pool := range transpile.AllPools(j.result) {
		p, err := j.pool(pool)
		switch {
		case err != nil:
			errs = append(errs, err)
		case p.Rendered.Name != "":
			out.Pools = append(out.Pools, p)
		}
	}
	out.Err, out.sizes = errors.Join(errs...), DownloadSizes{}.With(transpile.Contents(j.result.Fragments))
	return out
}

// sideOf returns what a result says besides its pools. The error is about the objects of cluster/, which the transpiler
// has checked.
func sideOf(res transpile.Result) (Side, error) {
	out := Side{Policy: disruption.Default(), Objects: res.Cluster, Marks: Marks{}, Reads: res.Reads}
	var errs []error
	for _, o := range res.Cluster {
		// secretsOf reports an invalid annotation with its line.
		_ = out.Marks.Add(o.Object.GetKind(), o.Object.GetName(), o.Object.GetAnnotations())
		var err error
		switch o.Object.GetKind() {
		case PoolKind:
			var p mcfgv1.MachineConfigPool
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &p)
			out.Declared = append(out.Declared, p)
		case PolicyKind:
			var mc operatorv1.MachineConfiguration
			if err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &mc); err == nil {
				out.PolicyFile, out.Overrides = o.File, disruption.OverridesOf(&mc)
				out.Policy, err = disruption.FromSpec(mc.Spec.NodeDisruptionPolicy)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: reading %s: %w", o.File, o.Line, o.Object.GetKind(), err))
		}
	}
	for _, e := range res.Report {
		at := origin.Pos{File: e.File, Line: e.Line, Column: e.Column}
		out.Warnings = append(out.Warnings, Warning{
			Rule: e.Rule, Message: e.Message, Origin: at.String(),
			file: e.File,
		})
	}
	return out, errors.Join(errs...)
}

// pool renders one pool. One with a MachineConfigPool and without documents is left out without an error, because the
// controller accepts it too.
func (j job) pool(pool string) (PoolRendering, error) {
	selected, err := transpile.Select(j.result, pool)
	if err != nil {
		return PoolRendering{}, fmt.Errorf("selecting the fragments of pool %q: %w", pool, err)
	}
	others, err := chosen(j.result, pool, j.layers)
	if err != nil {
		return PoolRendering{}, err
	}
	inputs := append(transpile.MachineConfigs(selected), others...)
	if len(inputs) == 0 && !slices.Contains(j.result.Pools, pool) {
		return PoolRendering{}, nil
	}
	secrets, err := secretsOf(j.result, pool, inputs)
	if err != nil {
		return PoolRendering{}, err
	}
	rendered, err := j.renderer.Merge(pool, inputs, j.defaults.For(poolAnnotations(j.result, pool)))
	if err != nil {
		return PoolRendering{}, fmt.Errorf("rendering pool %q: %w", pool, err)
	}
	return PoolRendering{
		Rendered: rendered, Secrets: secrets, places: newPlaces(selected, rendered),
	}, nil
}

// secretsOf reads the annotations for a pool: of its MachineConfigPool, the MachineConfiguration, and the
// MachineConfigs from the API that it selects.
func secretsOf(res transpile.Result, pool string, inputs []*mcfgv1.MachineConfig) (out secretmask.Paths, err error) {
	var bad []error
	m := Marks{}
	for _, o := range res.Cluster {
		if o.Object.GetKind() != PolicyKind && o.Object.GetName() != pool {
			continue
		}
		if err := m.Add(o.Object.GetKind(), o.Object.GetName(), o.Object.GetAnnotations()); err != nil {
			bad = append(bad, fmt.Errorf("%s:%d: %w", o.File, o.Line, err))
		}
	}
	out = m.of(pool)
	for _, mc := range inputs {
		marked, err := secretmask.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
		if err != nil {
			bad = append(bad, fmt.Errorf("reading annotation %s of MachineConfig %q: %w",
				v1alpha1.SecretPathsAnnotation, mc.Name, err))
		}
		out = append(out, marked...)
	}
	return out, errors.Join(bad...)
}

func poolAnnotations(res transpile.Result, pool string) map[string]string {
	for _, o := range res.Cluster {
		if o.Object.GetKind() == PoolKind && o.Object.GetName() == pool {
			return o.Object.GetAnnotations()
		}
	}
	return nil
}

// chosen returns the layers that a pool selects and no fragment replaces.
func chosen(res transpile.Result, pool string,
	layers []*mcfgv1.MachineConfig,
) (out []*mcfgv1.MachineConfig, err error) {
	if len(layers) == 0 {
		return nil, nil
	}
	selector, err := transpile.Selector(pool, res.Cluster)
	if err != nil {
		return nil, fmt.Errorf("selecting the layers of pool %q: %w", pool, err)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil, nil // An empty selector selects no MachineConfig.
	}
	matches, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of MachineConfigPool %q: %w", pool, err)
	}
	for _, l := range layers {
		ours := slices.ContainsFunc(res.Fragments, func(f transpile.Fragment) bool { return f.Name == l.Name })
		if !ours && matches.Matches(labels.Set(l.Labels)) {
			out = append(out, l)
		}
	}
	return out, nil
}

// Side returns the Rendering as a side of a comparison.
func (r Rendering) Side(name string) Side {
	s := r.side
	s.Name, s.Pools = name, map[string]Pool{}
	for _, p := range r.Pools {
		s.Pools[p.Rendered.Pool] = Pool{
			Rendered: cmp.Or(p.Rendered.Nodes.Base, p.Rendered.Name), Config: p.Rendered.Config, Origin: p.places.of,
			Lineage: p.places.explain, Secrets: p.Secrets, NotAllowed: p.Rendered.NotAllowed,
			Notices: notices(p.Rendered.Notices), Nodes: p.nodes(),
			Sizes: r.sizes.With(p.Rendered.Contents),
		}
	}
	return s
}

// notices leaves out those about values that a pool inherits and overrides: pools exist for that.
func notices(all []render.Notice) (out []Notice) {
	for _, n := range all {
		if n.Rule != render.RuleOverridesWorker {
			out = append(out, Notice{Rule: n.Rule, Kind: n.Kind, Path: n.Name, Message: n.Message, Inputs: n.Inputs})
		}
	}
	return out
}

// Explain renders the inputs of a config again and returns what set each item: a line of a fragment, or a MachineConfig
// that a user created through the API. same: the inputs render to exactly this name and spec.
func Explain(of *mcfgv1.MachineConfig, pool string, inputs []*mcfgv1.MachineConfig,
	fragments []transpile.Fragment,
) (places []Place, same bool, err error) {
	d := render.Defaults{
		OSImageURL: of.Spec.OSImageURL, ExtensionsImage: of.Spec.BaseOSExtensionsContainerImage, LargeFiles: true,
	}
	rendered, err := render.Merge(pool, inputs, d.ForExisting())
	if err != nil {
		return nil, false, fmt.Errorf("rendering the inputs of %s again: %w", of.Name, err)
	}
	found := newPlaces(fragments, rendered)
	node, isOfNodes := rendered.NodeOf(of.Name)
	if !isOfNodes {
		return found.all(), rendered.Name == of.Name, nil
	}
	own, err := rendered.Node(node)
	if err != nil {
		return nil, false, err
	}
	places = found.ofNode(own, node).all()
	if rendered.Table().Nodes[node].Facts != nil {
		places = append(places, Place{Item: "facts of node " + node, At: found.rowOf(node)})
	}
	return places, true, nil
}

// SecretPaths returns the marks of each pool.
func (r Rendering) SecretPaths() map[string]secretmask.Paths {
	out := map[string]secretmask.Paths{}
	for _, p := range r.Pools {
		out[p.Rendered.Pool] = p.Secrets
	}
	return out
}
