package documents

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// MoveToKeys gives every value the line and column of its key. kustomize keeps the line and column of a node when it
// merges, so the position of a merged value says which file wrote the value last.
func (t YAMLText) MoveToKeys(n *yaml.Node) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			v := n.Content[i+1]
			at := t.Pos(c)
			t.MoveToKeys(v)
			v.Line, v.Column = at.Line, at.Column
			continue
		}
		if n.Kind == yaml.SequenceNode {
			at := t.Pos(c)
			t.MoveToKeys(c)
			c.Line, c.Column = at.Line, at.Column
		}
	}
}

// lineBits is how many lower bits of a node's line are the line number. The upper bits are the index of the node's
// file.
const lineBits = 24

// YAMLFiles are the files that wrote the nodes of one document. A node's line has the index of its file in its upper
// bits.
type YAMLFiles []string

// Bits returns the index of a file as upper bits of a line. If f does not have the file, Bits adds it.
func (f *YAMLFiles) Bits(file string) int {
	i := slices.Index(*f, file)
	if i < 0 {
		i = len(*f)
		*f = append(*f, file)
	}
	return i << lineBits
}

// Pos returns the position where a node was written.
func (f YAMLFiles) Pos(n *yaml.Node) origin.Pos {
	file, line := n.Line>>lineBits, n.Line&(1<<lineBits-1)
	if line == 0 || file >= len(f) {
		return origin.Pos{}
	}
	return origin.Pos{File: f[file], Line: line, Column: n.Column}
}

// Set sets the position of a node, but not of the nodes below it.
func (f *YAMLFiles) Set(n *yaml.Node, at origin.Pos) {
	n.Line, n.Column = at.Line|f.Bits(at.File), at.Column
}

// SetAll sets the position of a node and everything below it.
func (f *YAMLFiles) SetAll(n *yaml.Node, at origin.Pos) {
	f.Set(n, at)
	for _, c := range n.Content {
		f.SetAll(c, at)
	}
}

// Copy copies a tree and adds the bits of a file to its lines.
func Copy(n *yaml.Node, bits int) *yaml.Node {
	if n == nil {
		return nil
	}
	out := *n
	out.Line |= bits
	if n.Content != nil {
		out.Content = make([]*yaml.Node, len(n.Content))
		for i, c := range n.Content {
			out.Content[i] = Copy(c, bits)
		}
	}
	return &out
}

// Remove removes an entry of a mapping.
func Remove(n *yaml.Node, key string) {
	if n == nil {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

// SetChanged sets the position of everything that differs between two states of a tree, and keeps all other positions.
func (f *YAMLFiles) SetChanged(before, after *yaml.Node, at origin.Pos) {
	if before.Kind != after.Kind || before.Kind == yaml.ScalarNode && before.Value != after.Value {
		f.SetAll(after, at)
		return
	}
	after.Line, after.Column = before.Line, before.Column
	for i, c := range after.Content {
		var was *yaml.Node
		switch {
		case after.Kind == yaml.MappingNode && i%2 == 0:
			was = c
		case after.Kind == yaml.MappingNode:
			_, was = Field(before, after.Content[i-1].Value)
		case i < len(before.Content):
			was = before.Content[i]
		}
		if was == nil {
			f.SetAll(c, at)
		} else {
			f.SetChanged(was, c, at)
		}
	}
}
