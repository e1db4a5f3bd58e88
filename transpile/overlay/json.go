package overlay

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/filters/patchjson6902"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// maxOperations is how many operations a JSON patch may have: each of them takes the whole document through JSON.
const maxOperations = 500

// takesFrom are the operations of a JSON patch, and whether each has a place to take a value from.
var takesFrom = map[string]bool{"add": false, "remove": false, "replace": false, "test": false, "move": true, "copy": true}

// operation is one of a JSON patch, made for the object.
type operation struct {
	name string
	text string   // as kustomize reads it
	from []string // the words of its pointers
	path []string
	// value with the places of its lines; nil where the operation has none.
	value *yaml.Node
	at    origin.Pos
}

// json prepares a list of JSON patch operations: their paths are those of the plain document.
func (p *body) json(t text, ops *yaml.Node) {
	if len(ops.Content) > maxOperations {
		p.add(fatal(t.pos(ops), "too-large", "the patch has %d operations, and %d are enough: patch with part of a document instead", len(ops.Content), maxOperations))
		return
	}
	for _, n := range ops.Content {
		if op, ok := p.operation(t, n); ok {
			p.operations = append(p.operations, op)
		}
	}
}

// operation reads one, and refuses what would fail with the patch's text in the message, or write beside the document.
func (p *body) operation(t text, n *yaml.Node) (operation, bool) {
	op := operation{name: scalarAt(n, "op"), at: t.pos(n)}
	from, known := takesFrom[op.name]
	keys := []string{"path"}
	if from {
		keys = []string{"from", "path"}
	}
	switch {
	case n.Kind != yaml.MappingNode:
		p.add(fatal(op.at, "patch", "an operation of a JSON patch is a mapping, such as {op: remove, path: /storage/files/0}"))
		return op, false
	case !known:
		p.add(fatal(op.at, "patch", "there is no operation %q: known are %s", op.name, strings.Join(sortedKeys(takesFrom), ", ")))
		return op, false
	}
	prefix := ""
	if p.about.plain {
		prefix = "/" + p.about.under
	}
	for _, key := range keys {
		_, v := field(n, key)
		pointer := scalarAt(n, key)
		if !strings.HasPrefix(pointer, "/") {
			p.add(fatal(op.at, "patch", "the %s %q of operation %s does not begin with /: write it as /storage/files/0/mode", key, pointer, op.name))
			return op, false
		}
		*v = *str(prefix + pointer)
		v.Style = yaml.DoubleQuotedStyle
		if key == "from" {
			op.from = words(v.Value)
		} else {
			op.path = words(v.Value)
		}
		if !p.about.plain && slices.Contains([]string{"/apiVersion", "/kind", "/metadata", "/metadata/name"}, pointer) && op.name != "test" {
			p.add(fatal(op.at, "patch", "a document is known by its kind and name, and %s would change them; use namePrefix or nameSuffix", pointer))
			return op, false
		}
	}
	return op, p.readValue(t, n, &op)
}

// readValue prepares what an operation sets.
func (p *body) readValue(t text, n *yaml.Node, op *operation) bool {
	k, v := field(n, "value")
	switch op.name {
	case "add", "replace", "test":
		if v == nil {
			p.add(fatal(op.at, "patch", "the operation %s of %s has no value", op.name, "/"+strings.Join(op.path, "/")))
			return false
		}
	}
	if v != nil {
		last := op.path[len(op.path)-1]
		parent := ""
		if len(op.path) > 1 {
			parent = op.path[len(op.path)-2]
		}
		if p.about.kind == Butane {
			switch {
			case v.Kind == yaml.ScalarNode && (isLocal(last) || areLocal(parent)):
				p.add((&localizer{text: t}).one(v)...)
			case v.Kind == yaml.SequenceNode && areLocal(last):
				p.add(t.localize(mapping(str(last), v))...)
			default:
				p.add(t.localize(v)...)
			}
			key := last
			if isIndex(last) {
				key = parent
			}
			quote(v, key)
		}
		// Of an operation of several lines it is the one with the value that says what there is.
		op.at, op.value = t.pos(k), v
	}
	src, err := encode(&yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{n}})
	if err != nil {
		p.add(fatal(op.at, "patch", "%v", err))
		return false
	}
	op.text, p.file = string(src), t.file
	if op.value != nil {
		t.settle(op.value)
		op.value.Line, op.value.Column = op.at.Line, op.at.Column
	}
	return true
}

func isIndex(word string) bool {
	_, err := strconv.Atoi(word)
	return word == "-" || err == nil
}

// words are those of a JSON pointer.
func words(pointer string) []string {
	out := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, w := range out {
		out[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(w)
	}
	return out
}

// jsonPatch runs operations on documents.
type jsonPatch struct{ *body }

func (p jsonPatch) use(w *walker, s *step, all *gathered) {
	for _, d := range w.meant(s.selector, all) {
		d.add(use{step: s, name: d.name()})
	}
}

func (p jsonPatch) apply(s *state, u use) bool {
	a := s.document.about
	for _, op := range p.operations {
		if !s.b.spend(2*size(s.root, maxGrown) + len(op.text)) {
			return s.fatal(op.at, "too-large", "patching all documents takes more work than a repository of this size may ask for: use fewer operations that select many documents")
		}
		before := entries(s.content(), a.lists)
		if !op.run(s, p.file) {
			return false
		}
		if !s.grown(u) {
			return false
		}
		after := entries(s.content(), a.lists)
		if last := op.path[len(op.path)-1]; slices.ContainsFunc(a.lists, func(l list) bool { return l.key == last }) {
			continue // the item has another name now
		}
		for _, e := range gone(before, after) {
			s.facts = append(s.facts, fact{step: s.step, what: removed, entry: e, at: op.at, was: s.placeOf(before[e], e)})
		}
	}
	return true
}

// run has kustomize do one operation. As that goes through JSON, which has no lines, it does it once more by itself on
// the nodes, to know what of the result was there before, and where.
func (op operation) run(s *state, file string) bool {
	before := s.root
	n := kyaml.NewRNode(copyOf(before, 0))
	if _, err := (patchjson6902.Filter{Patch: op.text}).Filter([]*kyaml.RNode{n}); err != nil {
		return s.kustomized(op.at, err)
	}
	s.root = n.YNode()
	if s.content() == nil {
		return s.fatal(op.at, "document", "the document %q is empty after this; remove it from the resources", s.document.name())
	}
	op.imitate(before, copyOf(op.value, s.from.number(file)), s.from.number(file))
	s.from.blameAll(s.root, op.at)
	transfer(before, s.root)
	return true
}

// imitate does what the operation does to a tree of nodes with places. Where it cannot, the tree stays, and what has no
// other place has the operation's.
func (op operation) imitate(root, value *yaml.Node, number int) {
	switch op.name {
	case "remove":
		take(root, op.path)
		return
	case "move":
		value = take(root, op.from)
	case "copy":
		value = copyOf(at(root, op.from), 0)
	case "test":
		return
	}
	holder := at(root, op.path[:len(op.path)-1])
	if holder == nil || value == nil {
		return
	}
	value.Line, value.Column = op.at.Line|number, op.at.Column
	word := op.path[len(op.path)-1]
	switch i, ok := index(holder, word); {
	case holder.Kind == yaml.MappingNode:
		set(holder, word, value)
	case ok && op.name == "replace" && i < len(holder.Content):
		holder.Content[i] = value
	case ok:
		holder.Content = slices.Insert(holder.Content, i, value)
	}
}

// at is what a pointer's words lead to.
func at(n *yaml.Node, words []string) *yaml.Node {
	for _, word := range words {
		if n == nil {
			return nil
		}
		if i, ok := index(n, word); ok && i < len(n.Content) {
			n = n.Content[i]
			continue
		}
		_, n = field(n, word)
	}
	return n
}

// take takes out what a pointer's words lead to.
func take(root *yaml.Node, words []string) *yaml.Node {
	holder, word := at(root, words[:len(words)-1]), words[len(words)-1]
	if holder == nil {
		return nil
	}
	if i, ok := index(holder, word); ok && i < len(holder.Content) {
		n := holder.Content[i]
		holder.Content = slices.Delete(holder.Content, i, i+1)
		return n
	}
	_, n := field(holder, word)
	remove(holder, word)
	return n
}

// index reads a pointer's word as the place in a list; - is behind its end, and what is negative counts from there.
func index(n *yaml.Node, word string) (int, bool) {
	if n.Kind != yaml.SequenceNode {
		return 0, false
	}
	i, err := strconv.Atoi(word)
	switch {
	case word == "-":
		return len(n.Content), true
	case err == nil && i < 0:
		i += len(n.Content)
	}
	return i, err == nil && i >= 0 && i <= len(n.Content)
}

// transfer gives the nodes of one tree the places of another.
func transfer(from, to *yaml.Node) {
	to.Line, to.Column = from.Line, from.Column
	for i, c := range to.Content {
		var was *yaml.Node
		switch {
		case to.Kind == yaml.MappingNode && i%2 == 1:
			_, was = field(from, to.Content[i-1].Value)
		case to.Kind == yaml.SequenceNode && from.Kind == yaml.SequenceNode && i < len(from.Content):
			was = from.Content[i]
		}
		if was != nil {
			transfer(was, c)
		}
	}
}
