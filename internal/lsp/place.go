package lsp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// place is what stands at a position of a YAML text.
type place struct {
	// root is the YAML document around the position.
	root *yaml.Node
	// path are the keys from the root to the value; an item of a list has its number.
	path []string
	// nodes are the values along the path, from the root on: one more than path has.
	nodes []*yaml.Node
	// key is the key of the value; nil for an item of a list and for the root.
	key *yaml.Node
	// onKey: the position is on the key, and not on the value.
	onKey bool
}

// value is the value at the position, or that of the key there.
func (p place) value() *yaml.Node { return p.nodes[len(p.nodes)-1] }

// schemaPath is the path with "-" for each item of a list.
func (p place) schemaPath() []string {
	out := make([]string, len(p.path))
	for i, key := range p.path {
		if out[i] = key; p.nodes[i].Kind == yaml.SequenceNode {
			out[i] = "-"
		}
	}
	return out
}

// maxText is the largest text of which positions are found.
const maxText = documents.MaxBytes

// parse reads all YAML documents of a text, without following aliases. A text with an error has those before it.
func parse(text string) (roots []*yaml.Node, ok bool) {
	if len(text) > maxText {
		return nil, false
	}
	defer func() { // The parser panics for some texts that are no YAML.
		if recover() != nil {
			ok = false
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return roots, true
		}
		if err != nil {
			return roots, false
		}
		if len(doc.Content) > 0 {
			roots = append(roots, doc.Content[0])
		}
	}
}

// repaired parses a text, or without the line at a position, or without everything from there on: while somebody
// types, the line is often no YAML yet.
func repaired(d document, line int) []*yaml.Node {
	if roots, ok := parse(d.text); ok {
		return roots
	}
	if line >= 0 && line < len(d.lines) {
		lines := append(append(append([]string(nil), d.lines[:line]...), ""), d.lines[line+1:]...)
		if roots, ok := parse(strings.Join(lines, "\n")); ok {
			return roots
		}
		if roots, ok := parse(strings.Join(d.lines[:line], "\n")); ok {
			return roots
		}
	}
	return nil
}

// rootAt returns the last document that begins at or before a line, which counts from 1.
func rootAt(roots []*yaml.Node, line int) *yaml.Node {
	var out *yaml.Node
	for _, r := range roots {
		if out == nil || r.Line <= line {
			out = r
		}
	}
	return out
}

// placeAt finds what stands at a byte of a line; false for an empty line and a comment.
func placeAt(d document, line, offset int) (place, bool) {
	text := d.line(line)
	if trimmed := strings.TrimSpace(text); trimmed == "" || strings.HasPrefix(trimmed, "#") {
		return place{}, false
	}
	root := rootAt(repaired(d, line), line+1)
	if root == nil {
		return place{}, false
	}
	p := place{root: root, nodes: []*yaml.Node{root}}
	column := len([]rune(text[:min(offset, len(text))])) + 1
	// Before the first word of a line, dashes count as part of the item behind them.
	if strings.Trim(text[:min(offset, len(text))], " -") == "" {
		column = len([]rune(text)) - len([]rune(strings.TrimLeft(text, " -"))) + 1
	}
	for {
		next, index := below(p.value(), line+1, column)
		if next == nil {
			return p, true
		}
		if p.value().Kind == yaml.MappingNode {
			p.key, p.path = p.value().Content[index-1], append(p.path, p.value().Content[index-1].Value)
			p.onKey = p.key.Line == line+1 && column >= p.key.Column && column <= p.key.Column+len([]rune(p.key.Value))
		} else {
			p.key, p.path, p.onKey = nil, append(p.path, strconv.Itoa(index)), false
		}
		p.nodes = append(p.nodes, next)
		if p.onKey {
			return p, true
		}
	}
}

// within returns the patch of a kustomization around a line, as a document of its own, with the line and the byte
// there.
func within(d document, line, offset int) (document, int, int, bool) {
	p, ok := placeAt(d, line, offset)
	if !ok || !isKustomization(d.file) || d.patch || strings.Join(p.schemaPath(), ".") != "patches.-.patch" {
		return d, line, offset, false
	}
	v := p.value()
	if v.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 || line < v.Line {
		return d, line, offset, false
	}
	first := d.line(v.Line)
	indent := len(first) - len(strings.TrimLeft(first, " "))
	out := newDocument(d.file, v.Value, d.wide)
	out.patch = true
	return out, line - v.Line, max(0, offset-indent), true
}

// placeIn is placeAt, also in a patch that stands in a kustomization. The document is the patch there.
func placeIn(d document, at position) (place, document, bool) {
	line, offset := at.Line, d.offset(at.Line, at.Character)
	if inner, l, o, ok := within(d, line, offset); ok {
		d, line, offset = inner, l, o
	}
	p, ok := placeAt(d, line, offset)
	return p, d, ok
}

// below returns the last child of a node that begins at or before a position, with its index.
func below(n *yaml.Node, line, column int) (child *yaml.Node, index int) {
	before := func(c *yaml.Node) bool { return c.Line < line || c.Line == line && c.Column <= column }
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if before(n.Content[i]) {
				child, index = n.Content[i+1], i+1
			}
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			if before(c) {
				child, index = c, i
			}
		}
	}
	return child, index
}

// find returns the path to the value of a scalar or to a key with a text; nil if there is none.
func find(n *yaml.Node, text string, path []string) ([]string, []*yaml.Node) {
	for i, c := range n.Content {
		at := path
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 0:
			if c.Value == text {
				return path, []*yaml.Node{n}
			}
			continue
		case n.Kind == yaml.MappingNode:
			at = append(path[:len(path):len(path)], n.Content[i-1].Value)
		default:
			at = append(path[:len(path):len(path)], "-")
		}
		if c.Kind == yaml.ScalarNode && c.Value == text {
			return at, []*yaml.Node{n, c}
		}
		if found, nodes := find(c, text, at); nodes != nil {
			return found, append([]*yaml.Node{n}, nodes...)
		}
	}
	return nil, nil
}

// item is a part of a config that a document sets, as package disruption and package lineage name it.
type item struct {
	kind disruption.ChangeKind
	name string
}

// lists are the keys that lead to a list of items, and the key of an item that names it; "" if the item is the name.
var lists = []struct {
	path []string
	kind disruption.ChangeKind
	key  string
}{
	{[]string{"storage", "files"}, disruption.KindFile, "path"},
	{[]string{"storage", "directories"}, disruption.KindDirectory, "path"},
	{[]string{"storage", "links"}, disruption.KindLink, "path"},
	{[]string{"storage", "disks"}, disruption.KindStorage, "device"},
	{[]string{"storage", "raid"}, disruption.KindStorage, "name"},
	{[]string{"storage", "luks"}, disruption.KindStorage, "name"},
	{[]string{"storage", "filesystems"}, disruption.KindStorage, "device"},
	{[]string{"systemd", "units"}, disruption.KindUnit, "name"},
	{[]string{"passwd", "users"}, disruption.KindUser, "name"},
	{[]string{"passwd", "groups"}, disruption.KindGroup, "name"},
	{[]string{"kernel_arguments", "should_exist"}, disruption.KindKargs, ""},
	{[]string{"openshift", "kernel_arguments"}, disruption.KindKargs, ""},
	{[]string{"kernelArguments"}, disruption.KindKargs, ""},
	{[]string{"openshift", "extensions"}, disruption.KindExtensions, ""},
	{[]string{"extensions"}, disruption.KindExtensions, ""},
	{[]string{"users"}, disruption.KindUser, "name"},
}

// single are the keys of fields that are one item.
var single = map[string]disruption.ChangeKind{
	"osImageURL": disruption.KindOSImage, "kernelType": disruption.KindKernelType, "fips": disruption.KindFIPS,
}

// item returns the item that a place belongs to; false if it belongs to none.
func (p place) item() (item, bool) {
	at := 0
	for at < len(p.path) && (p.path[at] == "spec" || p.path[at] == "config") {
		at++ // A MachineConfig, and an object of this project.
	}
	path := p.path[at:]
	for _, l := range lists {
		n := len(l.path)
		if len(path) <= n || !slices.Equal(path[:n], l.path) || p.nodes[at+n].Kind != yaml.SequenceNode {
			continue
		}
		of := p.nodes[at+n+1]
		name := of.Value
		if l.key != "" {
			name = documents.Scalar(of, l.key)
		}
		return item{l.kind, name}, name != ""
	}
	if len(path) == 1 {
		kind, ok := single[path[0]]
		return item{kind, ""}, ok && at > 0
	}
	return item{}, false
}
