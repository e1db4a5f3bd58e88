package cluster

import (
	"bytes"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// position returns a node's position in a file.
func position(file string, n *yaml.Node) origin.Pos {
	return origin.Pos{File: file, Line: n.Line, Column: n.Column}
}

var quoted = regexp.MustCompile(`"([^"]+)"`)

// fieldPosition finds the field that a strict decoding error names: `unknown field "spec.nodeSelektor"`.
func fieldPosition(file string, root *yaml.Node, message string) origin.Pos {
	at := position(file, root)
	m := quoted.FindStringSubmatch(message)
	if m == nil {
		return at
	}
	n := root
	for _, word := range strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(m[1]), ".") {
		k, v := entry(n, word)
		if v == nil {
			return at
		}
		at, n = position(file, k), v
	}
	return at
}

// entry returns an entry of a mapping or a list: the key (or the item) and the value. The node may be nil. entry
// returns nil if there is no entry.
func entry(n *yaml.Node, word string) (k, v *yaml.Node) {
	if n == nil {
		return nil, nil
	}
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(word); err == nil && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == word {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// Position returns the position of a field of the object.
func (o Object) Position(fsys fs.FS, field string) origin.Pos {
	at := origin.Pos{File: o.File, Line: o.Line}
	src, err := fs.ReadFile(fsys, o.File)
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for err == nil {
		var doc yaml.Node
		if err = dec.Decode(&doc); err == nil && doc.Content[0].Line == o.Line {
			return fieldPosition(o.File, doc.Content[0], strconv.Quote(field))
		}
	}
	return at
}

// findAlias returns the first alias of a tree, or nil.
func findAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n
	}
	for _, c := range n.Content {
		if a := findAlias(c); a != nil {
			return a
		}
	}
	return nil
}
