package render

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

const (
	// maxNodeProblems is for how many nodes a merge reports problems.
	maxNodeProblems = 20
	// mergedTogether is how many configs of nodes are merged at a time.
	mergedTogether = 16
	// maxNodeConfigs is the most bytes of the list of the nodes' configs, which is an annotation.
	maxNodeConfigs = maxAnnotations - 64<<10
	// MaxNodeBytes is the most bytes of all configs of single nodes of a pool together. While a pool is updated, the
	// cluster stores two versions of them, and etcd has 2 GiB by default for everything.
	MaxNodeBytes = 256 << 20
	// warnNodeBytes is the size from which Rendered.Warnings contains a warning.
	warnNodeBytes = 16 << 20
)

// ownConfigs are the configs of single nodes of a pool. They are merged again when a caller needs their content,
// because a cluster of thousands of nodes has as many.
type ownConfigs struct {
	base  Input
	table machineconfig.NodeTable
	// largeFiles is that of Defaults.
	largeFiles bool
	// shared is the digest of the documents that use facts.
	shared nodeKey
	// names maps the digest of everything on which the config of a node depends to the name and the size of the config.
	names map[nodeKey]ownConfig
	// unreviewed is that of Defaults.
	unreviewed string
}

type nodeKey [sha256.Size]byte

// ownConfig is the config of a node, without its content.
type ownConfig struct {
	name  string
	bytes int
}

// withNodes adds the configs of the nodes of a table to the config of a pool.
func withNodes(r, earlier Rendered, table Input, largeFiles bool) (Rendered, error) {
	base, unreviewed := r.Name, r.own.unreviewed
	r.own = ownConfigs{
		base:  Input{Identity: Identity{Name: base, Labelled: true}, Config: r.Config},
		table: table.Nodes, names: map[nodeKey]ownConfig{}, largeFiles: largeFiles,
	}
	r.own.unreviewed = unreviewed
	var err error
	if r.own.shared, err = keyOf(table.Nodes.Shared); err != nil {
		return Rendered{}, err
	}
	r.Nodes = v1alpha1.NodeConfigs{Base: base}
	r.Inputs = append(r.Inputs, table.Name)
	warnings, err := guardNodes(r, table.Nodes)
	if err != nil {
		return Rendered{}, err
	}
	r.Warnings = append(slices.Clip(r.Warnings), warnings...)
	var bad []error
	written, bytes := map[string]bool{base: true}, 0
	for own := range r.nodeConfigs(earlier, table.Nodes.Names()) {
		if own.err != nil {
			if bad = append(bad, own.err); len(bad) == maxNodeProblems {
				break
			}
			continue
		}
		r.own.names[own.key] = own.ownConfig
		if own.name != base {
			r.Nodes.Set(own.node, own.name)
		}
		if !written[own.name] { // Facts may be longer than the references to them.
			written[own.name], bytes = true, bytes+own.bytes+metadata
		}
		if bytes > MaxNodeBytes {
			bad = append(bad, tooManyBytes(r, len(written)-1, bytes))
			break
		}
	}
	if err := errors.Join(bad...); err != nil {
		return Rendered{}, err
	}
	if r.Nodes.IsZero() {
		r.Nodes = v1alpha1.NodeConfigs{}
		return r, nil
	}
	files, wrong := machineconfig.SecretFiles(r.Config)
	r.Nodes.Secrets = wrong != nil || len(files) > 0 || table.Nodes.RefersToSecrets()
	if err := refuseNodes(r); err != nil {
		return Rendered{}, err
	}
	r.Name = machineconfig.TargetName(r.Nodes)
	return r, nil
}

// tooManyBytes says that the configs of single nodes need too much of the cluster's storage.
func tooManyBytes(r Rendered, count, bytes int) error {
	return fmt.Errorf("the configs of %d single nodes of pool %s have up to %s together, and a cluster stores at most "+
		"%s of them: each has all of the pool's config. Keep large files in a registry or on a web server, with a "+
		"hash (`bunsen hash`), or split the pool. The largest parts are %s", count, r.Pool,
		machineconfig.SizeText(int64(bytes)), machineconfig.SizeText(MaxNodeBytes), largest(r))
}

// guardNodes refuses a table whose configs the cluster could not store, before any of them is merged: each config has
// everything of the base and of its documents. It also warns about what the cluster has to store.
func guardNodes(r Rendered, table machineconfig.NodeTable) (warnings []string, err error) {
	sizeOf := func(documents []machineconfig.NodeDocument) (bytes int) {
		for _, d := range documents {
			bytes += len(d.Spec.Config.Raw)
		}
		return bytes
	}
	base, shared := len(r.Spec.Config.Raw)+metadata, sizeOf(table.Shared)
	bytes, count, list := 0, 0, v1alpha1.NodeConfigs{Base: r.Name}
	for name, node := range table.Nodes {
		own := len(node.Documents) > 0 || node.Facts != nil && len(table.Shared) > 0
		if !own {
			continue // It runs the config of the pool.
		}
		one := base + sizeOf(node.Documents)
		if node.Facts != nil {
			one += shared
		}
		if one > MaxSize { // Its files go to the content store, or its merge is an error.
			one = MaxSize
		}
		bytes, count = bytes+one, count+1
		list.Set(name, "rendered-"+r.Pool+"-"+strings.Repeat("0", 32))
	}
	if bytes > MaxNodeBytes {
		return nil, tooManyBytes(r, count, bytes)
	}
	if err := refuseNodes(Rendered{Pool: r.Pool, Spec: r.Spec, Nodes: list}); err != nil {
		return nil, err
	}
	if bytes > warnNodeBytes {
		warnings = append(warnings, fmt.Sprintf("the configs of %d single nodes of pool %s write up to %s to the API "+
			"server, as one object for each node, and the most is %s", count, r.Pool,
			machineconfig.SizeText(int64(bytes)), machineconfig.SizeText(MaxNodeBytes)))
	}
	return warnings, nil
}

// refuseNodes refuses a pool whose nodes cannot have configs of their own.
func refuseNodes(r Rendered) error {
	if size := len(r.Nodes.String()); size > maxNodeConfigs {
		return fmt.Errorf("the list of the configs of %d nodes of pool %s has %d bytes, and an annotation can have "+
			"%d: split the pool", len(r.Nodes.Nodes), r.Pool, size, maxNodeConfigs)
	}
	if size := len(r.Spec.Config.Raw) + len(r.Nodes.String()) + metadata; size > MaxSize {
		return fmt.Errorf("the config of pool %s has %d bytes with its list of nodes, the limit is %d: make files "+
			"smaller, or split the pool", r.Pool, size, MaxSize)
	}
	return nil
}

// namedConfig is the config of a node, or why it cannot be merged.
type namedConfig struct {
	node string
	key  nodeKey
	ownConfig
	err error
}

// nodeConfigs returns the configs of nodes in their order. It merges several at a time: to merge and to name thousands
// takes seconds of one processor.
func (r *Rendered) nodeConfigs(earlier Rendered, nodes []string) iter.Seq[namedConfig] {
	return func(yield func(namedConfig) bool) {
		for few := range slices.Chunk(nodes, mergedTogether) {
			out := make([]namedConfig, len(few))
			var group sync.WaitGroup
			for i, node := range few {
				group.Go(func() { out[i] = r.nodeConfig(earlier, node) })
			}
			group.Wait()
			for _, own := range out {
				if !yield(own) {
					return
				}
			}
		}
	}
}

// nodeConfig returns the config of a node. It merges the config only if the earlier result does not have it.
func (r *Rendered) nodeConfig(earlier Rendered, node string) (own namedConfig) {
	defer fault.Recover(&own.err)
	own.node = node
	if own.key, own.err = r.own.key(node); own.err != nil {
		return own
	}
	known := false
	if own.ownConfig, known = earlier.own.names[own.key]; known {
		return own
	}
	merged, err := r.own.merge(r.Pool, node)
	own.ownConfig, own.err = ownConfig{merged.Name, len(merged.Spec.Config.Raw)}, err
	return own
}

// key returns the digest of everything on which the config of a node depends.
func (o ownConfigs) key(name string) (nodeKey, error) {
	node := o.table.Nodes[name]
	about := struct {
		Base, Name string
		Node       machineconfig.NodeFacts
		Shared     nodeKey
		Unreviewed string
	}{Base: o.base.Name, Name: name, Node: node, Unreviewed: o.unreviewed}
	if node.Facts != nil {
		about.Shared = o.shared
	}
	return keyOf(about)
}

func keyOf(about any) (nodeKey, error) {
	text, err := json.Marshal(about)
	if err != nil {
		return nodeKey{}, fmt.Errorf("reading the documents of nodes: %w", err)
	}
	return sha256.Sum256(text), nil
}

// merge merges the config of a node: the config of the pool, then the documents that use facts, then the documents of
// the node. Later ones override earlier ones.
func (o ownConfigs) merge(pool, node string) (Rendered, error) {
	documents, err := o.table.For(node)
	if err != nil {
		return Rendered{}, err
	}
	return o.mergeDocuments(pool, node, documents)
}

// mergeDocuments merges documents into the config of the pool.
func (o ownConfigs) mergeDocuments(pool, node string, documents []machineconfig.NodeDocument) (Rendered, error) {
	inputs, bad := []Input{o.base}, []error{}
	for _, d := range documents {
		in := Input{Identity: Identity{Name: d.Name, Labelled: true}}
		in.Config, in.Problems = judge(d.Spec)
		for _, p := range in.Problems {
			bad = append(bad, fmt.Errorf("document %s of node %s: %w", d.Name, node, p))
		}
		inputs = append(inputs, in)
	}
	if len(bad) > 0 {
		return Rendered{}, errors.Join(bad...)
	}
	r, err := combine(pool, inputs, Defaults{LargeFiles: o.largeFiles}, Rendered{})
	if err == nil {
		err = checkReviewed(r, o.unreviewed)
	}
	if err != nil {
		return Rendered{}, fmt.Errorf("the config of node %s: %w", node, err)
	}
	r.VariantOf = o.base.Name
	return r, nil
}

// Node returns the config of one node. Without a config of its own, that is the config of the pool under its own name.
func (r Rendered) Node(name string) (Rendered, error) {
	if _, own := r.Nodes.Nodes[name]; own {
		return r.own.merge(r.Pool, name)
	}
	if !r.Nodes.IsZero() {
		r.Name, r.Nodes, r.own = r.Nodes.Base, v1alpha1.NodeConfigs{}, ownConfigs{}
	}
	return r, nil
}

// content is Node without what only a review reads. It judges and names nothing again that was judged to find its name,
// because that costs several times as much as the merge.
func (r Rendered) content(node string) (Rendered, error) {
	if _, own := r.Nodes.Nodes[node]; !own || r.own.names == nil {
		return r.Node(node)
	}
	documents, err := r.own.table.For(node)
	if err != nil {
		return Rendered{}, err
	}
	inputs := []Input{r.own.base}
	for _, d := range documents {
		in := Input{Identity: Identity{Name: d.Name, Labelled: true}}
		if in.Config, err = decode(d.Spec); err != nil {
			return Rendered{}, fmt.Errorf("document %s of node %s: %w", d.Name, node, err)
		}
		inputs = append(inputs, in)
	}
	d := Defaults{LargeFiles: r.own.largeFiles}
	out, err := written(r.Pool, mergedConfig(inputs, d), inputs, d)
	out.Name, out.VariantOf = r.Nodes.Of(node), r.own.base.Name
	return out, err
}

// NodeOf returns a node of the pool whose own config has the name, and whether there is one. The name of the node is
// empty for the config of the nodes without a config of their own.
func (r Rendered) NodeOf(config string) (node string, ok bool) {
	if r.Nodes.IsZero() {
		return "", false
	}
	for name := range r.Nodes.Nodes {
		if r.Nodes.Of(name) == config {
			return name, true
		}
	}
	return "", config == r.Nodes.Base
}

// NodesOf returns the nodes of the pool whose own config has the name, sorted.
func (r Rendered) NodesOf(config string) (nodes []string) {
	for name := range r.Nodes.Nodes {
		if r.Nodes.Of(name) == config {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// NodeSizes returns the sizes of the configs of single nodes as objects of the API server, by their names.
func (r Rendered) NodeSizes() map[string]int {
	out := map[string]int{}
	for _, own := range r.own.names {
		if own.name != r.own.base.Name {
			out[own.name] = own.bytes + metadata
		}
	}
	return out
}

// Table returns the facts and the documents of the nodes of the pool, from which their configs are merged.
func (r Rendered) Table() machineconfig.NodeTable { return r.own.table }

// References returns the config of a node with the references to facts in place of the values. It shows what nodes with
// the same documents have in common.
func (r Rendered) References(name string) (Rendered, error) {
	node := r.own.table.Nodes[name]
	documents := node.Documents
	if node.Facts != nil {
		documents = slices.Concat(r.own.table.Shared, documents)
	}
	return r.own.mergeDocuments(r.Pool, name, documents)
}

// WithTable returns the config of a pool with the configs of the nodes of a table, which a MachineConfig of the pool
// stores.
func WithTable(r Rendered, table *mcfgv1.MachineConfig) (Rendered, error) {
	in, err := readTable(r, table)
	if err != nil {
		return Rendered{}, err
	}
	r.own.unreviewed = allUnreviewed
	return withNodes(r, Rendered{}, in, true) // The controller decided about large files when it rendered the pool.
}

// WithNodes is WithTable for a pool whose configs of single nodes are known by name. It merges none of them; Node and
// References do that.
func WithNodes(r Rendered, table *mcfgv1.MachineConfig, nodes v1alpha1.NodeConfigs) (Rendered, error) {
	in, err := readTable(r, table)
	if err != nil {
		return Rendered{}, err
	}
	r.Nodes = nodes
	r.own = ownConfigs{
		base:  Input{Identity: Identity{Name: nodes.Base, Labelled: true}, Config: r.Config},
		table: in.Nodes, largeFiles: true, unreviewed: allUnreviewed,
	}
	return r, nil
}

// readTable reads the MachineConfig that stores the table of the nodes of a pool.
func readTable(r Rendered, table *mcfgv1.MachineConfig) (Input, error) {
	in := Read(table)
	if err := in.Problems.Err(); err != nil {
		return Input{}, fmt.Errorf("reading MachineConfig %s: %w", table.Name, err)
	}
	if in.Table != r.Pool {
		return Input{}, fmt.Errorf("MachineConfig %s is not the table of pool %s", table.Name, r.Pool)
	}
	return in, nil
}

// allUnreviewed allows all contents that nobody can review. It is for configs that exist already.
const allUnreviewed = "/"

// checkReviewed refuses contents that no reviewer can read in places where they are code, unless the pool allows them.
func checkReviewed(r Rendered, allowed string) error {
	patterns, err := secretmask.ParsePaths(allowed)
	bad := []error{}
	if err != nil {
		bad = append(bad, fmt.Errorf("reading annotation %s of MachineConfigPool %s: %w",
			v1alpha1.UnreviewedPathsAnnotation, r.Pool, err))
	}
	for _, refused := range notReviewed(r, patterns) {
		bad = append(bad, fmt.Errorf("%s: %s%s. Write it in clear text, or let the owner of the pool allow the "+
			"path: set the annotation `%s: %s` on MachineConfigPool %s in cluster/", refused.Field, refused.Why,
			r.book.setBy(entry{refused.Kind, refused.Name}), v1alpha1.UnreviewedPathsAnnotation,
			refused.Name, r.Pool))
	}
	return errors.Join(bad...)
}

// notReviewed returns the contents that no reviewer can read and that the patterns do not allow.
func notReviewed(r Rendered, allowed secretmask.Paths) []disruption.Refusal {
	return slices.DeleteFunc(disruption.Unreviewed(machineconfig.Flattened(r.Config)), func(p disruption.Refusal) bool {
		return allowed.Match(p.Name)
	})
}

// NotAllowed returns what Merge would refuse if the pool had this annotation: contents that no reviewer can read in
// places where they are code, in the config of the pool and in those of its nodes. A text that several nodes share is
// in the result once.
func (r Rendered) NotAllowed(annotation string) (out []string) {
	allowed, _ := secretmask.ParsePaths(annotation) // Patterns that are wrong allow nothing.
	add := func(of Rendered) {
		for _, refused := range notReviewed(of, allowed) {
			if text := refused.Field + ": " + refused.Why; !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	add(r)
	for _, name := range slices.Sorted(maps.Keys(r.Nodes.Nodes)) {
		own, err := r.Node(name)
		if err != nil { // There is no error, because the same config was merged for its name before.
			out = append(out, err.Error())
		}
		add(own)
		if len(out) >= maxNodeProblems {
			break
		}
	}
	return out
}
