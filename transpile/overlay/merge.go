package overlay

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/filters/patchstrategicmerge"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// maxWidth is how many entries a list or a mapping may have where kustomize merges it, as that takes the square of them.
const maxWidth = 4000

// mergePatch merges part of a document into documents.
type mergePatch struct{ *body }

func (p mergePatch) use(w *walker, s *step, all *gathered) {
	for _, d := range w.meant(s.selector, all) {
		d.add(use{step: s, name: d.name()})
		if p.deletes && !s.selector.depends() {
			d.gone = true
			w.dropped = append(w.dropped, d)
		}
	}
	if p.deletes {
		all.renew()
	}
}

func (p mergePatch) apply(s *state, u use) bool {
	a := s.document.about
	before := entries(s.content(), a.lists)
	for _, d := range p.deletions {
		f := fact{step: s.step, what: missing, entry: d.entry, at: d.at}
		if _, there := before[d.entry]; there {
			f.what = deleted
		}
		s.facts = append(s.facts, f)
	}
	patch := copyOf(p.object, s.from.number(p.file))
	if !p.check(s, patch) {
		return false
	}
	_, meta := field(patch, "metadata")
	if meta == nil {
		meta = mapping()
		set(patch, "metadata", meta)
	}
	remove(patch, "apiVersion") // what the document is stays what it was
	remove(patch, "kind")
	remove(meta, "name")
	said, had := plainItems(entries(a.content(patch), a.lists)), plainItems(before)
	s.b.spend(p.size)
	hideKeys(s.content(), a.lists)
	hideKeys(a.content(patch), a.lists)
	out, err := s.b.merge(s.root, patch)
	if err != nil {
		return s.kustomized(p.at, err)
	}
	if s.root = out; out == nil {
		return true
	}
	revealKeys(s.content(), a.lists)
	after := entries(s.content(), a.lists)
	restore(after, said, had)
	adopt(s.content(), a.lists)
	p.losses(s, before, after)
	return true
}

// plainItems copies the items of lists of plain values, which kustomize overwrites.
func plainItems(in map[entry]*yaml.Node) map[entry]yaml.Node {
	out := map[entry]yaml.Node{}
	for e, item := range in {
		if item.Kind == yaml.ScalarNode {
			out[e] = *item
		}
	}
	return out
}

// restore gives such items their places and their notation back.
func restore(after map[entry]*yaml.Node, said, had map[entry]yaml.Node) {
	for e, item := range after {
		if was, ok := said[e]; ok && item.Kind == yaml.ScalarNode {
			*item = was
		} else if was, ok := had[e]; ok && item.Kind == yaml.ScalarNode {
			*item = was
		}
	}
}

// adopt gives lists that kustomize wrote anew the places of their first items.
func adopt(content *yaml.Node, lists []list) {
	for _, l := range lists {
		for _, n := range reach(content, strings.Split(l.path, ".")) {
			if n.Line == 0 && len(n.Content) > 0 {
				n.Line, n.Column = n.Content[0].Line, n.Content[0].Column
			}
		}
	}
}

// check refuses what kustomize would merge wrongly, or not in our time.
func (p mergePatch) check(s *state, patch *yaml.Node) bool {
	a := s.document.about
	if a.kind == Ignition && ignition2(s.content()) && !p.deletes {
		return s.fatal(p.at, "patch", "%s is a config of Ignition 2, where a path may stand twice, so that a patch cannot say which it means; use operations of a JSON patch, or write the config as version 3", s.document.path)
	}
	if key, twice := repeated(s.content(), a.content(patch), a.lists); twice {
		return s.fatal(p.at, "patch-key", "%q stands twice in %s, and a patch cannot say which it means; use operations of a JSON patch", key, s.document.path)
	}
	if wide(s.root) || wide(patch) {
		return s.fatal(p.at, "too-large", "%s, or the patch, has a list or mapping of more than %d entries, which kustomize would take too long to merge", s.document.path, maxWidth)
	}
	return true
}

func wide(n *yaml.Node) bool {
	limit := maxWidth
	if n.Kind == yaml.MappingNode {
		limit *= 2
	}
	if len(n.Content) > limit {
		return true
	}
	for _, c := range n.Content {
		if c.Content != nil && wide(c) {
			return true
		}
	}
	return false
}

// losses notes the entries that the patch made disappear without deleting them by name.
func (p mergePatch) losses(s *state, before, after map[entry]*yaml.Node) {
	for _, e := range gone(before, after) {
		if !p.meant(e) {
			s.facts = append(s.facts, fact{step: s.step, what: removed, entry: e, at: p.placeOf(e), was: s.placeOf(before[e], e)})
		}
	}
}

// gone are the entries that were there before and are not after, but for those whose whole item is gone.
func gone(before, after map[entry]*yaml.Node) []entry {
	var out []entry
	for e := range before {
		if _, left := after[e]; !left {
			out = append(out, e)
		}
	}
	sortEntries(out)
	return slices.DeleteFunc(out, func(e entry) bool {
		holder, within := e.within()
		_, was := before[holder]
		_, left := after[holder]
		return within && was && !left
	})
}

// placeOf is the deepest place of the patch on the way to an entry's list.
func (p mergePatch) placeOf(e entry) origin.Pos {
	n, at := p.about.content(p.object), p.at
	for _, word := range strings.Split(e.list, ".") {
		if _, n = field(n, word); n == nil {
			break
		}
		at = origin.Pos{File: p.file, Line: n.Line, Column: n.Column}
	}
	return at
}

// merging: kustomize keeps its schema in package variables, so only one may merge at a time in a process.
var merging sync.Mutex

// merge merges a patch into an object. The result is nil where the object is gone.
func (b *builder) merge(object, patch *yaml.Node) (*yaml.Node, error) {
	merging.Lock()
	defer merging.Unlock()
	if !b.isolated {
		if err := isolate(); err != nil {
			return nil, err
		}
		b.isolated = true
	}
	out, err := patchstrategicmerge.Filter{Patch: kyaml.NewRNode(patch)}.Filter([]*kyaml.RNode{kyaml.NewRNode(object)})
	if err != nil || len(out) == 0 || out[0].IsNilOrEmpty() {
		return nil, err
	}
	return out[0].YNode(), nil
}

// isolate gives kustomize a schema of our own, whatever schema the process had before: each build does it once, and as
// no repository can add to it, it is the same for all.
func isolate() error {
	keys, err := schema()
	if err != nil {
		return err
	}
	openapi.ResetOpenAPI()
	openapi.SuppressBuiltInSchemaUse()
	if err := openapi.AddSchema(keys); err != nil {
		return fmt.Errorf("adding the schema of merge keys: %w", err)
	}
	return nil
}
