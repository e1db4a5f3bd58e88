package review

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
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
	return res, Render(res, &r.Renderer, r.Defaults, nil), nil
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

// Render does what the controllers do: it selects the fragments of each pool and merges them. The layers are
// MachineConfigs that users created through the API, nil for none. Each pool has those that it selects; a fragment
// replaces one of the same name.
func Render(res transpile.Result, r *render.Renderer, d render.Defaults,
	layers []*mcfgv1.MachineConfig,
) Rendering {
	j := job{result: res, renderer: r, defaults: d, layers: layers}
	side, err := sideOf(res)
	out, errs := Rendering{side: side}, []error{err}
	for _, pool := range transpile.AllPools(res) {
		p, err := j.pool(pool)
		switch {
		case err != nil:
			errs = append(errs, err)
		case p.Rendered.Name != "":
			out.Pools = append(out.Pools, p)
		}
	}
	out.Err, out.sizes = errors.Join(errs...), DownloadSizes{}.With(transpile.Contents(res.Fragments))
	return out
}

type job struct {
	result   transpile.Result
	renderer *render.Renderer
	defaults render.Defaults
	// additional MachineConfigs of the cluster
	layers []*mcfgv1.MachineConfig
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
	for _, l := range layers {
		ours := slices.ContainsFunc(res.Fragments, func(f transpile.Fragment) bool { return f.Name == l.Name })
		if !ours && selector.Matches(labels.Set(l.Labels)) {
			out = append(out, l)
		}
	}
	return out, nil
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

// Side is one of the two states that Compare compares: a tree, or the configs that run in a cluster.
type Side struct {
	// Name is for people: a revision or a directory.
	Name string
	// Commit is nil for a directory or a cluster.
	Commit *Commit
	// Folder of the repository, or "" for all of it. The undo command changes only this folder.
	Folder string
	// Pools by name.
	Pools map[string]Pool
	// Policy has the defaults of what the MachineConfiguration does not set. Head's judges the change, because it
	// applies when head is rolled out.
	Policy disruption.Policy
	// Overrides are allowed by the MachineConfiguration of this side. Compare uses those of head.
	Overrides disruption.Overrides
	// PolicyFile has the side's MachineConfiguration: `MachineConfiguration cluster` if only the cluster has one, or
	// "".
	PolicyFile string
	// Declared pools, with or without documents. In a review only base's annotations allow contents that no reviewer
	// can read.
	Declared []mcfgv1.MachineConfigPool
	// Objects of cluster/, with the declared pools.
	Objects []transpile.ClusterObject
	// Marks of the cluster objects. In a review only those of base hide contents.
	Marks    Marks
	Warnings []Warning
	// Encryption is who can read the secrets; zero if that is unknown, as of a cluster.
	Encryption EncryptionState
	// Entries of the tree. If one side has none, nothing is said about files.
	Entries map[string]source.Entry
	// Reads are the files that the documents of each pool are built from.
	Reads map[string][]string
	// Decrypt decrypts files of SOPS for a reader who has their key, at head; nil shows no value.
	Decrypt func(format string, body []byte) ([]byte, error)
}

// declares reports whether the side has the pool's MachineConfigPool, as every cluster has those of the standard pools.
func (s Side) declares(pool string) bool { return isStandard(pool) || s.declared(pool) != nil }

func (s Side) declared(pool string) *mcfgv1.MachineConfigPool {
	for i := range s.Declared {
		if s.Declared[i].Name == pool {
			return &s.Declared[i]
		}
	}
	return nil
}

// unreviewed returns the paths at which a pool may have contents that no reviewer can read; for a pool that this side
// lacks those of worker, whose documents a custom pool gets: otherwise no change could add a pool beside a worker with
// such contents.
func (s Side) unreviewed(pool string) string {
	own := s.declared(pool)
	if own == nil && !isStandard(pool) {
		own = s.declared(nextPool)
	}
	if own == nil {
		return ""
	}
	return own.Annotations[v1alpha1.UnreviewedPathsAnnotation]
}

// nextPool: it gets the nodes of a removed custom pool, unless another pool selects them.
const nextPool = "worker"

// Pool is one pool with its rendered config.
type Pool struct {
	// Rendered is `rendered-<pool>-<hash>`. Two configs with one name have the same content, and are not compared.
	Rendered string
	Config   machineconfig.Config
	// Origin returns where the repository sets an item: `file:line:col`, or "" if unknown. The name of a kernel
	// argument or an extension is the value itself. Only changed items are asked for; it may be nil.
	Origin func(kind disruption.ChangeKind, name string) string
	// Lineage returns which documents wrote each attribute of an item. Only changed items are asked for; it may be nil.
	Lineage func(kind disruption.ChangeKind, name string) (lineage.Item, bool)
	// Secrets mark items whose contents are never printed: see v1alpha1.SecretPathsAnnotation.
	Secrets secretmask.Paths
	// NotAllowed returns what this side would refuse with the v1alpha1.UnreviewedPathsAnnotation of another one; nil
	// for a cluster.
	NotAllowed func(annotation string) []string
	Notices    []Notice
	// Nodes is nil if all nodes run Config.
	Nodes *NodeSide
	// Sizes of files of the content store, as far as known.
	Sizes DownloadSizes
	// a config of a cluster, whose configs of single nodes are unknown
	live bool
}

// PolicyKind is the kind of the object with the disruption policy.
const PolicyKind = "MachineConfiguration"

// Marks are the paths and units that the objects of a repository or a cluster mark as secret.
type Marks map[string]secretmask.Paths

// Add adds the marks of an object: a MachineConfiguration's apply to all pools, a MachineConfigPool's to that pool.
// Other kinds have none.
func (m Marks) Add(kind, name string, annotations map[string]string) error {
	pool := name
	switch kind {
	case PolicyKind:
		pool = allPools
	case PoolKind:
	default:
		return nil
	}
	marked, err := secretmask.ParsePaths(annotations[v1alpha1.SecretPathsAnnotation])
	m[pool] = append(m[pool], marked...)
	if err != nil {
		return fmt.Errorf("reading annotation %s of %s %q: %w", v1alpha1.SecretPathsAnnotation, kind, name, err)
	}
	return nil
}

// allPools: no pool has this name.
const allPools = ""

func (m Marks) of(pool string) secretmask.Paths { return slices.Concat(m[allPools], m[pool]) }

// trustedMarks are base's, which hide contents in a review. With those of head, a change could hide its own contents.
func trustedMarks(base Side, pools ...string) (out secretmask.Paths) {
	for _, pool := range pools {
		out = append(out, base.Pools[pool].Secrets...)
		out = append(out, base.Marks.of(pool)...)
	}
	return out
}

func without(patterns, other secretmask.Paths) (out []string) {
	for _, p := range patterns {
		if !slices.Contains(other, p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// Place is an item and the line that sets it.
type Place struct {
	// Item is kind and name: `file /etc/chrony.conf`.
	Item string
	// At is `file:line:col`, or the MachineConfig that a user created through the API.
	At string
	// Foreign is the name of the MachineConfig if it is not of this repository; otherwise empty.
	Foreign string
}

// places finds where the repository sets items of a rendered config. It indexes the layers when the first item is asked
// for: a review needs only changed ones.
type places struct {
	fragments []transpile.Fragment
	lineage   func() *lineage.Lineage
	// pool has the places of the layer poolLayer, for the config of a single node; otherwise nil.
	pool      *places
	poolLayer string
}

func newPlaces(fragments []transpile.Fragment, r render.Rendered) *places {
	return &places{fragments: fragments, lineage: sync.OnceValue(func() *lineage.Lineage {
		return lineage.New(lineage.LayersOfRendered(r, fragments), lineage.Options{Pool: r.Pool})
	})}
}

// ofNode is for the config of a node. A document of the node, or one that uses facts, overrides those of the pool.
func (p *places) ofNode(r render.Rendered, node string) *places {
	all, own := slices.Clone(p.fragments), []transpile.Fragment(nil)
	for _, f := range p.fragments {
		for _, d := range f.Documents {
			switch d.Node {
			case "":
				all = append(all, d)
			case node:
				own = append(own, d)
			}
		}
	}
	of := newPlaces(append(all, own...), r)
	of.pool, of.poolLayer = p, r.VariantOf
	return of
}

// last returns the fragment or the MachineConfig that set an item last. In the config of a single node, the config of
// its pool is one layer.
func (p *places) last(kind disruption.ChangeKind, name string) (lineage.Writer, bool) {
	last, ok := p.lineage().Last(kind, name)
	if ok && p.pool != nil && last.Layer == p.poolLayer {
		return p.pool.last(kind, name)
	}
	return last, ok
}

// of returns where the last fragment set an item, or the MachineConfig that a user created through the API.
func (p *places) of(kind disruption.ChangeKind, name string) string {
	last, ok := p.last(kind, name)
	if ok && last.Source == "" {
		return "MachineConfig " + last.Layer + ", made through the API"
	}
	return last.At.String()
}

// all lists the origins of all files, units and users, in lexical order.
func (p *places) all() []Place {
	var out []Place
	for _, n := range p.lineage().NamesOf() {
		switch n.Kind {
		case disruption.KindFile, disruption.KindUnit, disruption.KindUser:
			if at := p.of(n.Kind, n.Name); at != "" {
				place := Place{Item: string(n.Kind) + " " + n.Name, At: at}
				if last, ok := p.last(n.Kind, n.Name); ok && last.Source == "" {
					place.Foreign = last.Layer
				}
				out = append(out, place)
			}
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return strings.Compare(a.Item, b.Item) })
	return out
}

func (p *places) rowOf(node string) string {
	for _, f := range p.fragments {
		if at, ok := f.Nodes[node]; ok {
			return at.String()
		}
	}
	return ""
}

// explain returns who wrote each attribute of an item, with contents hidden.
func (p *places) explain(kind disruption.ChangeKind, name string) (lineage.Item, bool) {
	item, err := p.lineage().Explain(kind, name)
	return item, err == nil
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
