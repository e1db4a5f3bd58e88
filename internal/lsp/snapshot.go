package lsp

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// snapshot is what one state of a repository renders to. It never changes.
type snapshot struct {
	tree source.Tree
	// report is of the tree.
	report transpile.Report
	// result and side are of the tree, or of the last earlier one that could be rendered: while somebody types, most
	// states cannot.
	result    transpile.Result
	rendering review.Rendering
	side      review.Side
	// nodes are the lineages of single nodes, by pool and node, and known what settersOf found, by item.
	nodes, known *sync.Map
}

// newSnapshot returns a snapshot without its report. It keeps the rendering of an earlier one if the tree has none.
func newSnapshot(tree source.Tree, res transpile.Result, r review.Rendering, earlier *snapshot) *snapshot {
	s := &snapshot{tree: tree, result: res, nodes: new(sync.Map), known: new(sync.Map)}
	switch {
	case !res.Report.Fatal():
		s.rendering, s.side = r, r.Side("")
	case earlier != nil:
		s.result, s.rendering, s.side = earlier.result, earlier.rendering, earlier.side
		s.nodes, s.known = earlier.nodes, earlier.known
	}
	return s
}

// index makes the answers about items quick: each pool indexes its layers when it is first asked. Whoever asks
// meanwhile waits.
func (s *snapshot) index() {
	defer func() {
		_ = recover() // Whoever asks for the item gets the panic.
	}()
	for _, name := range s.pools() {
		if of := s.side.Pools[name].Lineage; of != nil {
			of(disruption.KindFile, "/")
		}
	}
}

// pools lists the rendered pools in lexical order.
func (s *snapshot) pools() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.side.Pools))
}

// setters is who sets an item in some pools, and what a change of it does there.
type setters struct {
	// pools as code for people, some with the nodes that alone have the item
	pools  []string
	item   lineage.Item
	effect string
	why    string
}

// settersOf returns who sets an item. Pools with the same answer are one entry.
func (s *snapshot) settersOf(it item) []setters {
	if known, ok := s.known.Load(it); ok {
		return known.([]setters) //nolint:forcetypeassert // only this method stores
	}
	out := s.findSetters(it)
	if len(out) == 0 && it.kind == disruption.KindKargs {
		// A document can have several arguments in one text, and Flatcar gets them at its first boot only.
		if words := machineconfig.SplitKargs([]string{it.name}); len(words) > 1 {
			out = s.findSetters(item{it.kind, words[0]})
		} else {
			out = s.findSetters(item{disruption.KindFirstBootKargs, ""})
		}
	}
	s.known.Store(it, out)
	return out
}

func (s *snapshot) findSetters(it item) (out []setters) {
	byText := map[string]int{}
	add := func(pool string, found lineage.Item, config machineconfig.Config) {
		one := setters{pools: []string{pool}, item: found, effect: disruption.EffectNewNodes}
		if d, ok := disruption.IfChanged(config, found.Kind, it.name, s.side.Policy); ok {
			one.effect = report.Effect(d)
			if len(d.Items) > 0 {
				one.why = d.Items[0].Why
			}
		}
		text := one.effect + one.why + lineage.Report{Items: []lineage.Item{found}}.Text()
		if at, ok := byText[text]; ok {
			out[at].pools = append(out[at].pools, pool)
			return
		}
		byText[text] = len(out)
		out = append(out, one)
	}
	for _, name := range s.pools() {
		pool := s.side.Pools[name]
		if pool.Lineage == nil {
			continue
		}
		// To explain what a pool lacks is slow, because that looks for similar names.
		if pool.Origin(it.kind, it.name) != "" {
			if found, ok := pool.Lineage(it.kind, it.name); ok {
				add(code(name), found, pool.Config)
				continue
			}
		}
		for node, count := range s.ownConfigs(name) {
			l := s.lineageOf(name, node)
			if _, ok := l.Last(it.kind, it.name); !ok {
				continue
			}
			found, err := l.Explain(it.kind, it.name)
			own, nodeErr := pool.Nodes.References(node)
			if err != nil || nodeErr != nil {
				continue
			}
			if text := "node " + code(node); count > 1 {
				add(fmt.Sprintf("%s (%d nodes)", code(name), count), found, own.Config)
			} else {
				add(code(name)+" ("+text+")", found, own.Config)
			}
		}
	}
	return out
}

// maxOwn is how many nodes of a pool are asked for documents of their own.
const maxOwn = 50

// ownConfigs yields the nodes of a pool that have documents of their own, and one of those that differ only in facts,
// with the number of nodes that it stands for.
func (s *snapshot) ownConfigs(pool string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		nodes := s.side.Pools[pool].Nodes
		if nodes == nil || nodes.References == nil {
			return
		}
		all := slices.Sorted(maps.Keys(nodes.Table.Nodes))
		first, count, own := "", 0, 0
		for _, n := range all {
			if nodes.Table.Nodes[n].Facts != nil {
				if count++; first == "" {
					first = n
				}
			}
		}
		if first != "" && len(nodes.Table.Shared) > 0 && !yield(first, count) {
			return
		}
		for _, n := range all {
			if len(nodes.Table.Nodes[n].Documents) == 0 || n == first {
				continue
			}
			if own++; own > maxOwn || !yield(n, 1) {
				return
			}
		}
	}
}

// lineageOf returns the lineage of a node with documents of its own.
func (s *snapshot) lineageOf(pool, node string) *lineage.Lineage {
	key := pool + " " + node
	if known, ok := s.nodes.Load(key); ok {
		return known.(*lineage.Lineage) //nolint:forcetypeassert // only this method stores
	}
	out := lineage.New(nil, lineage.Options{Pool: pool})
	for _, p := range s.rendering.Pools {
		if p.Rendered.Pool != pool {
			continue
		}
		if layers, err := lineage.LayersOfNode(s.result, p.Rendered, node); err == nil {
			out = lineage.New(layers, lineage.Options{Pool: pool})
		}
	}
	s.nodes.Store(key, out)
	return out
}

// fragmentsOf returns the fragments that a file declares or patches, by their files.
func (s *snapshot) fragmentsOf(file string) (out []transpile.Fragment) {
	if s == nil {
		return nil
	}
	for _, f := range s.result.Fragments {
		for _, f := range append([]transpile.Fragment{f}, f.Documents...) {
			if f.File == file || slices.ContainsFunc(f.Origin.Files, func(o origin.File) bool {
				return o.Path == file
			}) {
				out = append(out, f)
			}
		}
	}
	return out
}

// related returns the documents that a patch changes, and the patches that change a document: all files of the
// repository that wrote the fragments of a file, without the file itself. Those that declare a document come first.
func (s *snapshot) related(file string) (declaring, patching []string) {
	for _, f := range s.fragmentsOf(file) {
		if f.File != file && !slices.Contains(declaring, f.File) {
			declaring = append(declaring, f.File)
		}
		for _, o := range f.Origin.Files {
			if o.Path != file && o.Path != f.File && isYAML(o.Path) && !slices.Contains(patching, o.Path) {
				patching = append(patching, o.Path)
			}
		}
	}
	return declaring, patching
}

// has reports whether the tree has a file.
func (s *snapshot) has(file string) bool {
	if s == nil {
		return false
	}
	e, ok := s.tree.Entries[file]
	return ok && e.Refused == ""
}

// files lists the files at or below a directory in lexical order.
func (s *snapshot) files(dir string) (out []string) {
	if s == nil {
		return nil
	}
	for name, e := range s.tree.Entries {
		if e.Refused == "" && (dir == "." || name == dir || strings.HasPrefix(name, dir+"/")) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// kustomizations lists the kustomizations of the tree.
func (s *snapshot) kustomizations() (out []string) {
	for _, f := range s.files(".") {
		if isKustomization(f) {
			out = append(out, f)
		}
	}
	return out
}

func isKustomization(file string) bool {
	name := path.Base(file)
	return name == "kustomization.yaml" || name == "kustomization.yml" || name == "Kustomization"
}

func isYAML(file string) bool {
	ext := path.Ext(file)
	return documents.IsButane(file) || ext == ".yaml" || ext == ".yml" || isKustomization(file)
}

// sentence returns words as a part of a sentence: a, b and c.
func sentence(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// poolsText names pools: "pool `worker`".
func poolsText(pools []string) string {
	return plural(len(pools), "pool", "pools") + " " + sentence(pools)
}
