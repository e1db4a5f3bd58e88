package overlay

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/filters/patchjson6902"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// maxOperations is how many operations a JSON patch may have. There is a limit because each operation converts the
// whole document to JSON and back.
const maxOperations = 500

// hasFrom lists the operations of a JSON patch, and whether each copies its value from another path.
var hasFrom = map[string]bool{
	"add": false, "remove": false, "replace": false, "test": false, "move": true,
	"copy": true,
}

// Operation is one operation of a JSON patch. The JSON pointers of an Operation begin at the root of the object that
// kustomize receives.
type Operation struct {
	Name string
	Text string   // the operation as text for kustomize
	From []string // the keys of the pointers path and from
	Path []string
	// Value is the value with its positions; nil if the operation has no value.
	Value *yaml.Node
	At    origin.Pos
}

// parseOperations prepares a list of JSON patch operations. The paths in the patch begin at the root of the document as
// its file has it.
func (p *Patch) parseOperations(t documents.YAMLText, ops *yaml.Node) {
	if len(ops.Content) > maxOperations {
		p.add(origin.Errorf(t.Pos(ops), "too-large", "the patch has %d operations, and %d are enough: patch with "+
			"part of a document instead", len(ops.Content), maxOperations))
		return
	}
	for _, n := range ops.Content {
		if op, ok := p.parseOperation(t, n); ok {
			p.Operations = append(p.Operations, op)
		}
	}
}

// parseOperation refuses an operation whose error would quote the patch, and an operation that would write outside the
// document.
func (p *Patch) parseOperation(t documents.YAMLText, n *yaml.Node) (Operation, bool) {
	op := Operation{Name: documents.Scalar(n, "op"), At: t.Pos(n)}
	from, known := hasFrom[op.Name]
	keys := []string{"path"}
	if from {
		keys = []string{"from", "path"}
	}
	switch {
	case n.Kind != yaml.MappingNode:
		p.add(origin.Errorf(op.At, "patch", "an operation of a JSON patch is a mapping, such as {op: remove, path: "+
			"/storage/files/0}"))
		return op, false
	case !known:
		p.add(origin.Errorf(op.At, "patch", "there is no operation %q: known are %s", op.Name,
			strings.Join(slices.Sorted(maps.Keys(hasFrom)), ", ")))
		return op, false
	}
	prefix := ""
	if p.Info.Wrapped {
		prefix = "/" + p.Info.Section
	}
	for _, key := range keys {
		_, v := documents.Field(n, key)
		pointer := documents.Scalar(n, key)
		if !strings.HasPrefix(pointer, "/") {
			p.add(origin.Errorf(op.At, "patch", "the %s %q of operation %s does not begin with /: write it as "+
				"/storage/files/0/mode", key, pointer, op.Name))
			return op, false
		}
		*v = *documents.Str(prefix + pointer)
		v.Style = yaml.DoubleQuotedStyle
		if key == "from" {
			op.From = keysOf(v.Value)
		} else {
			op.Path = keysOf(v.Value)
		}
		if !p.Info.Wrapped && slices.Contains([]string{"/apiVersion", "/kind", "/metadata", "/metadata/name"},
			pointer) && op.Name != "test" {
			p.add(origin.Errorf(op.At, "patch", "a document is known by its kind and name, and %s would change them; "+
				"use namePrefix or nameSuffix", pointer))
			return op, false
		}
	}
	return op, p.parseValue(t, n, &op)
}

// parseValue prepares the value of an operation.
func (p *Patch) parseValue(t documents.YAMLText, n *yaml.Node, op *Operation) bool {
	k, v := documents.Field(n, "value")
	switch op.Name {
	case "add", "replace", "test":
		if v == nil {
			p.add(origin.Errorf(op.At, "patch", "the operation %s of %s has no value", op.Name,
				"/"+strings.Join(op.Path, "/")))
			return false
		}
	}
	if v != nil {
		last := op.Path[len(op.Path)-1]
		parent := ""
		if len(op.Path) > 1 {
			parent = op.Path[len(op.Path)-2]
		}
		if p.Info.Kind == documents.Butane {
			switch {
			case v.Kind == yaml.ScalarNode && (documents.IsLocal(last) || documents.AreLocal(parent)):
				p.add(documents.ResolveLocal(t, v)...)
			case v.Kind == yaml.SequenceNode && documents.AreLocal(last):
				p.add(documents.ResolveLocals(t, documents.Mapping(documents.Str(last), v))...)
			default:
				p.add(documents.ResolveLocals(t, v)...)
			}
			key := last
			if isIndex(last) {
				key = parent
			}
			documents.QuoteScalars(v, key)
		}
		// If an operation has several lines, the line of its value is its position.
		op.At, op.Value = t.Pos(k), v
	}
	documents.MarkTabs(n)
	src, err := documents.Encode(&yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{n}})
	if err != nil {
		p.add(origin.Errorf(op.At, "patch", "%v", err))
		return false
	}
	documents.UnmarkTabs(n)
	op.Text, p.File = string(src), t.File
	if op.Value != nil {
		t.MoveToKeys(op.Value)
		op.Value.Line, op.Value.Column = op.At.Line, op.At.Column
	}
	return true
}

func isIndex(word string) bool {
	_, err := strconv.Atoi(word)
	return word == "-" || err == nil
}

// keysOf returns the keys of a JSON pointer.
func keysOf(pointer string) []string {
	out := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, w := range out {
		out[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(w)
	}
	return out
}

// applyOperations runs the patch's operations on a document.
func (b *builder) applyOperations(p *Patch, c change) bool {
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
