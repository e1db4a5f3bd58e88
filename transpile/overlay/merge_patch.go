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
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// maxWidth is how many entries a list or a mapping may have if kustomize merges it. The time for a merge grows with the
// square of that number.
const maxWidth = 4000

// planPatch adds a change for each document that a patch selects.
func planPatch(g *gatherer, p *Patch, s *Step, all *documentSet) {
	for _, d := range g.find(s.Selector, all) {
		g.changes = append(g.changes, change{step: s, document: d, name: d.name()})
		if p.Deletes && !s.Selector.HasMetadata() {
			d.dropped = true
			g.dropped = append(g.dropped, d)
		}
	}
	if p.Deletes {
		all.reindex()
	}
}

func applyPatch(b *builder, p *Patch, c change) bool {
	if p.Object == nil {
		return applyOperations(b, p, c)
	}
	return applyMerge(b, p, c)
}

// applyMerge merges the patch into a document.
func applyMerge(b *builder, p *Patch, c change) bool {
	d := c.document
	lists := d.file.Info.Lists
	before, wholeBefore := documents.Entries(d.content(), lists), documents.WholeEntries(d.content(), lists)
	for _, of := range p.Deletions {
		e := effect{step: c.step, what: missing, entry: of.Entry, at: of.At}
		if _, there := before[of.Entry]; there {
			e.what = deleted
		}
		d.effects = append(d.effects, e)
	}
	part := documents.Copy(p.Object, d.files.Bits(p.File))
	if !checkMerge(p, d, part) {
		return false
	}
	_, meta := documents.Field(part, "metadata")
	if meta == nil {
		meta = documents.Mapping()
		documents.Set(part, "metadata", meta)
	}
	documents.Remove(part, "apiVersion") // A patch does not change the kind and the name of the document.
	documents.Remove(part, "kind")
	documents.Remove(meta, "name")
	content := d.file.Info.Content(part)
	inPatch, inDocument := scalarItems(documents.Entries(content, lists)), scalarItems(before)
	inOrder := orderedItems(d.content(), content, lists)
	b.spend(p.Size)
	documents.AddHiddenKeys(d.content(), lists)
	documents.AddHiddenKeys(content, lists)
	out, err := merge(d.root, part)
	if err != nil {
		return d.kustomizeFailed(p.At, err)
	}
	if d.root = out; out == nil {
		return true
	}
	documents.RemoveHiddenKeys(d.content(), lists)
	after := documents.Entries(d.content(), lists)
	restoreScalars(after, inPatch, inDocument)
	placeNewLists(d.content(), lists)
	setOrder(d.content(), inOrder)
	for _, e := range removedEntries(before, after) {
		if !deletesByName(p, e) {
			d.effects = append(d.effects, effect{
				step: c.step, what: removed, entry: e, at: listPosition(p, e),
				was: d.entryPosition(before[e], e),
			})
		}
	}
	for _, e := range removedOfWhole(before, after, wholeBefore, documents.WholeEntries(d.content(), lists)) {
		d.effects = append(d.effects, effect{
			step: c.step, what: removed, entry: e, at: listPosition(p, e), was: d.files.Pos(wholeBefore[e]),
		})
	}
	return true
}

// orderedItems returns, by its path, the order of each list in which the last item counts: first what only the document
// has, then what the patch has. kustomize would put the items of the patch first.
func orderedItems(content, patch *yaml.Node, lists []documents.List) map[string][]*yaml.Node {
	out := map[string][]*yaml.Node{}
	for _, l := range lists {
		words := strings.Split(l.Path, ".")
		theirs := scalarsIn(patch, words)
		if !l.IsOrdered || len(theirs) == 0 {
			continue
		}
		for _, item := range scalarsIn(content, words) {
			if !hasValue(theirs, item.Value) {
				out[l.Path] = append(out[l.Path], item)
			}
		}
		out[l.Path] = append(out[l.Path], theirs...)
	}
	return out
}

// scalarsIn returns copies of the scalars of a list.
func scalarsIn(content *yaml.Node, words []string) (out []*yaml.Node) {
	for _, list := range documents.NodesBelow(content, words) {
		if list.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range list.Content {
			if item.Kind == yaml.ScalarNode {
				is := *item
				out = append(out, &is)
			}
		}
	}
	return out
}

func hasValue(in []*yaml.Node, value string) bool {
	return slices.ContainsFunc(in, func(n *yaml.Node) bool { return n.Value == value })
}

// setOrder gives merged lists the order of their items, without items that kustomize did not keep.
func setOrder(content *yaml.Node, inOrder map[string][]*yaml.Node) {
	for path, items := range inOrder {
		for _, list := range documents.NodesBelow(content, strings.Split(path, ".")) {
			list.Content = slices.DeleteFunc(items, func(n *yaml.Node) bool { return !hasValue(list.Content, n.Value) })
		}
	}
}

// removedOfWhole returns the items of lists without a merge key that a step removed, except those of an item that is
// removed itself.
func removedOfWhole(before, after, wholeBefore, wholeAfter map[documents.Entry]*yaml.Node) []documents.Entry {
	var out []documents.Entry
	for e := range wholeBefore {
		holder, within := e.Within()
		_, was := before[holder]
		_, left := after[holder]
		if _, same := wholeAfter[e]; !same && (!within || !was || left) {
			out = append(out, e)
		}
	}
	documents.SortEntries(out)
	return out
}

// scalarItems copies the items of lists of scalars, because kustomize overwrites these items.
func scalarItems(in map[documents.Entry]*yaml.Node) map[documents.Entry]yaml.Node {
	out := map[documents.Entry]yaml.Node{}
	for e, item := range in {
		if item.Kind == yaml.ScalarNode {
			out[e] = *item
		}
	}
	return out
}

// restoreScalars restores the positions and the notation of the items that scalarItems copied.
func restoreScalars(after map[documents.Entry]*yaml.Node, inPatch, inDocument map[documents.Entry]yaml.Node) {
	for e, item := range after {
		if was, ok := inPatch[e]; ok && item.Kind == yaml.ScalarNode {
			*item = was
		} else if was, ok := inDocument[e]; ok && item.Kind == yaml.ScalarNode {
			*item = was
		}
	}
}

// placeNewLists sets the position of each list that kustomize created to the position of the list's first item.
func placeNewLists(content *yaml.Node, lists []documents.List) {
	for _, l := range lists {
		for _, n := range documents.NodesBelow(content, strings.Split(l.Path, ".")) {
			if n.Line == 0 && len(n.Content) > 0 {
				n.Line, n.Column = n.Content[0].Line, n.Content[0].Column
			}
		}
	}
}

// checkMerge refuses patches that kustomize would merge wrongly or too slowly.
func checkMerge(p *Patch, d *document, part *yaml.Node) bool {
	info := d.file.Info
	if info.Kind == documents.Ignition && documents.IsIgnition2(d.content()) && !p.Deletes {
		return d.fatal(p.At, "patch", "%s is a config of Ignition 2, where a path can occur twice, so a patch is "+
			"ambiguous. Use a JSON patch, or write the config as version 3", d.file.Path)
	}
	if key, twice := documents.FindAmbiguousKey(d.content(), info.Content(part), info.Lists); twice {
		return d.fatal(p.At, "patch-key", "%q occurs twice in %s, so a patch of it is ambiguous; use operations of a "+
			"JSON patch", key, d.file.Path)
	}
	if isWide(d.root) || isWide(part) {
		return d.fatal(p.At, "too-large", "%s, or the patch, has a list or mapping of more than %d entries, which "+
			"kustomize would take too long to merge", d.file.Path, maxWidth)
	}
	return true
}

// isWide reports whether a list or mapping of the tree has more entries than kustomize can merge in time.
func isWide(n *yaml.Node) bool {
	limit := maxWidth
	if n.Kind == yaml.MappingNode {
		limit *= 2
	}
	if len(n.Content) > limit {
		return true
	}
	for _, c := range n.Content {
		if c.Content != nil && isWide(c) {
			return true
		}
	}
	return false
}

// removedEntries returns the entries that are in before and not in after, except entries within a removed item.
func removedEntries(before, after map[documents.Entry]*yaml.Node) []documents.Entry {
	var out []documents.Entry
	for e := range before {
		if _, left := after[e]; !left {
			out = append(out, e)
		}
	}
	documents.SortEntries(out)
	return slices.DeleteFunc(out, func(e documents.Entry) bool {
		holder, within := e.Within()
		_, was := before[holder]
		_, left := after[holder]
		return within && was && !left
	})
}

// listPosition returns the position in the patch of the list that contains an entry. If the patch does not have the
// list, listPosition returns the position of the nearest parent.
func listPosition(p *Patch, e documents.Entry) origin.Pos {
	n, at := p.Info.Content(p.Object), p.At
	for _, word := range strings.Split(e.List, ".") {
		if _, n = documents.Field(n, word); n == nil {
			break
		}
		at = origin.Pos{File: p.File, Line: n.Line, Column: n.Column}
	}
	return at
}

// kustomizeLock guards kustomize's schema, which is in package variables. A build holds the lock while it applies its
// changes.
var kustomizeLock sync.Mutex

// merge merges a patch into an object. The result is nil if the patch deletes the object.
func merge(object, part *yaml.Node) (*yaml.Node, error) {
	out, err := patchstrategicmerge.Filter{Patch: kyaml.NewRNode(part)}.Filter([]*kyaml.RNode{kyaml.NewRNode(object)})
	if err != nil || len(out) == 0 || out[0].IsNilOrEmpty() {
		return nil, err
	}
	return out[0].YNode(), nil
}

// resetSchema makes kustomize use Bunsen's schema, because other code in the process may have set another schema. No
// repository can change the schema. The caller holds kustomizeLock.
func resetSchema() error {
	keys, err := documents.Schema()
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

// deletesByName reports whether the patch deletes an entry by its name.
func deletesByName(p *Patch, e documents.Entry) bool {
	return slices.ContainsFunc(p.Deletions, func(d Deletion) bool { return d.Entry == e })
}
