package overlay

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// reserved keys may stand in no document: kustomize sees ours there.
var reserved = []string{"__bunsen_origin", hiddenKey}

// ignitionExt is the extension of files that hold one Ignition config.
const ignitionExt = ".ign"

// Extensions of files that hold one plain Butane document.
var extensions = []string{".bu", ".butane", ".fcc"}

// IsButane tells whether a file is read as a plain Butane document, by its name.
func IsButane(file string) bool { return slices.Contains(extensions, path.Ext(file)) }

// wrap makes a plain document, or part of one, an object that kustomize can handle.
func (a about) wrap(name string, content *yaml.Node) *yaml.Node {
	return mapping(str("apiVersion"), str(a.group+"/"+a.version), str("kind"), str(string(a.kind)),
		str("metadata"), mapping(str("name"), str(name)), str(a.under), content)
}

// settle makes every node's line and column those of the place that a reader is shown for it: a value's are its key's.
// kustomize keeps them while it merges, so that the layer that had the last word is known by the value that is left.
func (t text) settle(n *yaml.Node) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			v := n.Content[i+1]
			at := t.pos(c)
			t.settle(v)
			v.Line, v.Column = at.Line, at.Column
			continue
		}
		if n.Kind == yaml.SequenceNode {
			at := t.pos(c)
			t.settle(c)
			c.Line, c.Column = at.Line, at.Column
		}
	}
}

// lineBits are those of a node's line that are the line; above them is the number of its file.
const lineBits = 24

// sources are the files that wrote the nodes of one document.
type sources []string

// number is the number of a file, above where lines are.
func (s *sources) number(file string) int {
	i := slices.Index(*s, file)
	if i < 0 {
		i = len(*s)
		*s = append(*s, file)
	}
	return i << lineBits
}

// pos is where a node was written.
func (s sources) pos(n *yaml.Node) origin.Pos {
	file, line := n.Line>>lineBits, n.Line&(1<<lineBits-1)
	if line == 0 || file >= len(s) {
		return origin.Pos{}
	}
	return origin.Pos{File: s[file], Line: line, Column: n.Column}
}

// blame makes a place that of a node, and not of what is below it.
func (s *sources) blame(n *yaml.Node, at origin.Pos) {
	n.Line, n.Column = at.Line|s.number(at.File), at.Column
}

// blameAll makes a place that of a node and everything below it.
func (s *sources) blameAll(n *yaml.Node, at origin.Pos) {
	s.blame(n, at)
	for _, c := range n.Content {
		s.blameAll(c, at)
	}
}

// copyOf copies a tree that a file wrote, with the file's number.
func copyOf(n *yaml.Node, number int) *yaml.Node {
	if n == nil {
		return nil
	}
	out := *n
	out.Line |= number
	if n.Content != nil {
		out.Content = make([]*yaml.Node, len(n.Content))
		for i, c := range n.Content {
			out.Content[i] = copyOf(c, number)
		}
	}
	return &out
}

// fingerprint tells a plain value from another, whatever its notation.
func fingerprint(n *yaml.Node) string {
	switch n.Tag {
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return strconv.FormatInt(i, 10)
		}
	case "!!bool":
		return strings.ToLower(n.Value)
	}
	return n.Value
}

// quote keeps the text of every scalar that is not meant as a number or boolean through the conversions to JSON that
// some patches cause. It tells whether it changed anything.
func quote(n *yaml.Node, key string) (changed bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!int", "!!float", "!!bool", "!!timestamp":
			if !verbatim[key] {
				n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
				return true
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			changed = quote(n.Content[i+1], n.Content[i].Value) || changed
		}
	case yaml.SequenceNode:
		if key == "should_exist" { // of kernel_arguments: text; of users and groups it is no list
			key = ""
		}
		for _, c := range n.Content {
			changed = quote(c, key) || changed
		}
	}
	return changed
}

// isLocal tells whether a key of a Butane document names a file of the repository.
func isLocal(key string) bool { return key == "local" || key == "contents_local" }

// areLocal tells the same of a list.
func areLocal(key string) bool { return key == "ssh_authorized_keys_local" }

// localize makes every reference to a file relative to the repository's root, so that a base and an overlay each mean
// a file beside themselves.
func (t text) localize(n *yaml.Node) []origin.Finding {
	l := localizer{text: t}
	return l.walk(n)
}

// localizer does so, and notes whether any reference was something else.
type localizer struct {
	text
	changed bool
}

func (t *localizer) walk(n *yaml.Node) []origin.Finding {
	var out []origin.Finding
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			switch {
			case isLocal(k.Value) && v.Kind == yaml.ScalarNode:
				out = append(out, t.one(v)...)
			case areLocal(k.Value) && v.Kind == yaml.SequenceNode:
				for _, c := range v.Content {
					if c.Kind == yaml.ScalarNode {
						out = append(out, t.one(c)...)
					}
				}
			default:
				out = append(out, t.walk(v)...)
			}
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			out = append(out, t.walk(c)...)
		}
	}
	return out
}

func (t *localizer) one(v *yaml.Node) []origin.Finding {
	if v.Tag == "!!null" { // a patch that removes the entry
		return nil
	}
	full := path.Join(path.Dir(t.file), v.Value)
	if v.Value == "" || path.IsAbs(v.Value) || full == ".." || strings.HasPrefix(full, "../") || strings.ContainsAny(v.Value, "\\\x00\n") {
		return []origin.Finding{fatal(t.pos(v), "local-path", "%q is not a file of this repository; name it relative to this document's directory", v.Value)}
	}
	t.changed = t.changed || v.Value != full
	v.Value = full
	return nil
}

// remove takes an entry out of a mapping.
func remove(n *yaml.Node, key string) {
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
