package overlay

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

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
