package overlay

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/filters/patchjson6902"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// applyOperations runs the patch's operations on a document.
func applyOperations(b *builder, p *Patch, c change) bool {
	d := c.document
	lists := d.file.Info.Lists
	for _, op := range p.Operations {
		if !b.spend(2*size(d.root, maxGrown) + len(op.Text)) {
			return d.fatal(op.At, "too-large", "patching all documents needs more work than a repository of this "+
				"size may request: use fewer operations that select many documents")
		}
		before, wholeBefore := documents.Entries(d.content(), lists), documents.WholeEntries(d.content(), lists)
		if !runOperation(op, d, p.File) || !c.checkSize() {
			return false
		}
		if last := op.Path[len(op.Path)-1]; slices.ContainsFunc(lists, func(l documents.List) bool {
			return l.Key == last
		}) {
			continue // The operation has renamed an item, so the item is not lost.
		}
		after := documents.Entries(d.content(), lists)
		for _, e := range removedEntries(before, after) {
			d.effects = append(d.effects, effect{
				step: c.step, what: removed, entry: e, at: op.At,
				was: d.entryPosition(before[e], e),
			})
		}
		for _, e := range removedOfWhole(before, after, wholeBefore, documents.WholeEntries(d.content(), lists)) {
			if !entersList(op.Path, d.file.Info.Section, e) {
				d.effects = append(d.effects, effect{
					step: c.step, what: removed, entry: e, at: op.At, was: d.files.Pos(wholeBefore[e]),
				})
			}
		}
	}
	return true
}

// entersList reports whether the path of an operation leads into the list of an entry, so that the operation names the
// item itself.
func entersList(path []string, section string, e documents.Entry) bool {
	words := strings.Split(e.List, ".")
	if section != "" && len(path) > 0 && path[0] == section {
		path = path[1:]
	}
	for _, key := range path {
		_, err := strconv.Atoi(key)
		switch isIndex := err == nil || key == "-"; {
		case len(words) == 0:
			return true
		case isIndex:
		case key == words[0]:
			words = words[1:]
		default:
			return false
		}
	}
	return false
}

// runOperation runs one operation with kustomize. kustomize converts the result to JSON, which has no lines. So
// runOperation also applies the operation to the nodes and copies their positions to the result.
func runOperation(op Operation, d *document, file string) bool {
	before := d.root
	given := documents.Copy(before, 0)
	documents.MarkTabs(given)
	n := kyaml.NewRNode(given)
	if _, err := (patchjson6902.Filter{Patch: op.Text}).Filter([]*kyaml.RNode{n}); err != nil {
		return d.kustomizeFailed(op.At, err)
	}
	d.root = n.YNode()
	documents.UnmarkTabs(d.root)
	if d.content() == nil {
		return d.fatal(op.At, "document", "the document %q is empty after this; remove it from the resources", d.name())
	}
	bits := d.files.Bits(file)
	applyToNodes(op, before, documents.Copy(op.Value, bits), bits)
	d.files.SetAll(d.root, op.At)
	copyPositions(before, d.root)
	return true
}

// applyToNodes applies the operation to a tree of nodes with positions. If the operation cannot be applied,
// applyToNodes does not change the tree, and the position of new values is that of the operation.
func applyToNodes(op Operation, root, value *yaml.Node, bits int) {
	switch op.Name {
	case "remove":
		removeAt(root, op.Path)
		return
	case "move":
		value = removeAt(root, op.From)
	case "copy":
		value = documents.Copy(nodeAt(root, op.From), 0)
	case "test":
		return
	}
	parent := nodeAt(root, op.Path[:len(op.Path)-1])
	if parent == nil || value == nil {
		return
	}
	value.Line, value.Column = op.At.Line|bits, op.At.Column
	key := op.Path[len(op.Path)-1]
	switch i, ok := index(parent, key); {
	case parent.Kind == yaml.MappingNode:
		documents.Set(parent, key, value)
	case ok && op.Name == "replace" && i < len(parent.Content):
		parent.Content[i] = value
	case ok:
		parent.Content = slices.Insert(parent.Content, i, value)
	}
}

// nodeAt returns the node to which a pointer's keys lead, or nil.
func nodeAt(n *yaml.Node, keys []string) *yaml.Node {
	for _, key := range keys {
		if n == nil {
			return nil
		}
		if i, ok := index(n, key); ok && i < len(n.Content) {
			n = n.Content[i]
			continue
		}
		_, n = documents.Field(n, key)
	}
	return n
}

// removeAt removes and returns the node to which a pointer's keys lead.
func removeAt(root *yaml.Node, keys []string) *yaml.Node {
	parent, key := nodeAt(root, keys[:len(keys)-1]), keys[len(keys)-1]
	if parent == nil {
		return nil
	}
	if i, ok := index(parent, key); ok && i < len(parent.Content) {
		n := parent.Content[i]
		parent.Content = slices.Delete(parent.Content, i, i+1)
		return n
	}
	_, n := documents.Field(parent, key)
	documents.Remove(parent, key)
	return n
}

// index reads a pointer's key as the index in a list. The key - is the end of the list, and negative numbers count from
// the end.
func index(n *yaml.Node, key string) (int, bool) {
	if n.Kind != yaml.SequenceNode {
		return 0, false
	}
	i, err := strconv.Atoi(key)
	switch {
	case key == "-":
		return len(n.Content), true
	case err == nil && i < 0:
		i += len(n.Content)
	}
	return i, err == nil && i >= 0 && i <= len(n.Content)
}

// copyPositions copies the positions of one tree's nodes to the nodes of another tree.
func copyPositions(from, to *yaml.Node) {
	to.Line, to.Column = from.Line, from.Column
	for i, c := range to.Content {
		var was *yaml.Node
		switch {
		case to.Kind == yaml.MappingNode && i%2 == 1:
			_, was = documents.Field(from, to.Content[i-1].Value)
		case to.Kind == yaml.SequenceNode && from.Kind == yaml.SequenceNode && i < len(from.Content):
			was = from.Content[i]
		}
		if was != nil {
			copyPositions(was, c)
		}
	}
}
