package butane

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// originFinder finds the origin of each part of an output: a line of the document, or the local file that the part was
// read from.
type originFinder struct {
	in    Input
	doc   *yaml.Node
	files []ign.File // the files of the output
	at    map[string]origin.Pos
}

// setOrigins sets the output's origins. The argument steps maps paths of the output to paths of the document.
func (t *translator) setOrigins(out *Output, steps map[string]string) {
	out.Origin = t.in.Origin.Through(steps)
	if root, ok := t.in.Origin.At["$"]; ok {
		out.Origin.At["$"] = root
	}
	p := originFinder{t.in, t.doc, out.Config.Ignition.Storage.Files, out.Origin.At}
	keys := map[string][]string{} // keys maps a file of SSH keys that the document includes to its keys in the output.
	for to, from := range steps {
		i := strings.LastIndexByte(from, '.')
		switch {
		case strings.HasSuffix(from, ".local") && strings.HasSuffix(to, ".source"),
			strings.HasSuffix(from, ".contents_local"):
			p.at[to] = origin.Pos{File: p.local(from), Line: 1}
		case i > 0 && strings.HasSuffix(from[:i], ".ssh_authorized_keys_local"):
			keys[from] = append(keys[from], to)
		case i > 0 && from[:i] == "$.storage.trees":
			p.tree(to, from)
		}
	}
	for from, paths := range keys {
		p.keys(p.local(from), paths)
	}
}

// local returns the local file that the document includes at a path.
func (p originFinder) local(at string) string {
	if n := lookup(p.doc, at); n != nil {
		return text(n)
	}
	return ""
}

// keys sets the origin of each key from a file of SSH keys to the key's line. Butane reads all lines of such a file
// that are not empty, in order.
func (p originFinder) keys(file string, paths []string) {
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(lastIndex(a), lastIndex(b)) })
	src, err := fs.ReadFile(p.in.FS, file)
	if err != nil {
		return
	}
	for i, line := range strings.Split(string(src), "\n") {
		if strings.TrimSuffix(line, "\r") == "" || len(paths) == 0 {
			continue
		}
		p.at[paths[0]] = origin.Pos{File: file, Line: i + 1}
		paths = paths[1:]
	}
}

// lastIndex returns the number at a path's end, or -1.
func lastIndex(p string) int {
	n, err := strconv.Atoi(p[strings.LastIndexByte(p, '.')+1:])
	if err != nil {
		return -1
	}
	return n
}

// treeFields maps the fields that the document sets for a whole tree to the same fields of each file or directory in
// the output.
var treeFields = map[string][]struct{ leaf, key string }{
	"files":       {{"user", "user"}, {"group", "group"}, {"mode", "file_mode"}},
	"directories": {{"user", "user"}, {"group", "group"}, {"mode", "dir_mode"}},
}

// tree sets the origin of each part of a tree to the local file that the part comes from. The origin of a field that
// the document sets for the whole tree is the document's line. The origin of a directory is also the document's line,
// because a directory has no lines.
func (p originFinder) tree(to, tree string) {
	list, rest, _ := strings.Cut(strings.TrimPrefix(to, "$.storage."), ".")
	number, leaf, _ := strings.Cut(rest, ".")
	n := lookup(p.doc, tree)
	for _, s := range treeFields[list] {
		if child(n, s.key) != nil && (leaf == s.leaf || strings.HasPrefix(leaf, s.leaf+".")) {
			p.at[to], _ = p.in.Origin.Find(tree + "." + s.key + strings.TrimPrefix(leaf, s.leaf))
			return
		}
	}
	i, err := strconv.Atoi(number)
	if err != nil || list != "files" || i >= len(p.files) {
		return
	}
	base := strings.TrimSuffix(path.Join("/", scalar(n, "path")), "/")
	below := strings.TrimPrefix(p.files[i].Path, base+"/")
	p.at[to] = origin.Pos{File: path.Join(p.local(tree+".local"), below), Line: 1}
}

// lookup returns the value at a path of a document, or nil.
func lookup(n *yaml.Node, at string) *yaml.Node {
	for _, key := range strings.Split(at, ".")[1:] {
		switch i, err := strconv.Atoi(key); {
		case n == nil:
			return nil
		case n.Kind == yaml.SequenceNode && err == nil && i < len(n.Content):
			n = n.Content[i]
		default:
			n = child(n, key)
		}
	}
	return n
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func scalar(n *yaml.Node, key string) string {
	if c := child(n, key); c != nil && c.Kind == yaml.ScalarNode && c.Tag != "!!null" {
		return c.Value
	}
	return ""
}

// text returns the string that a scalar decodes to.
func text(n *yaml.Node) string {
	var s string
	if n.Decode(&s) != nil {
		return n.Value
	}
	return s
}

// textAt returns the string at a path, or "" if there is no scalar.
func textAt(doc *yaml.Node, at string) string {
	if n := lookup(doc, at); n != nil && n.Kind == yaml.ScalarNode {
		return text(n)
	}
	return ""
}

// pathAtLine returns the path of the value in a line of the document. Butane's type errors name only the line.
func pathAtLine(n *yaml.Node, line int, at string) string {
	best := ""
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			here := at + "." + n.Content[i].Value
			if p := pathAtLine(n.Content[i+1], line, here); p != "" {
				return p
			}
			if n.Content[i].Line == line {
				best = here
			}
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			if p := pathAtLine(c, line, fmt.Sprintf("%s.%d", at, i)); p != "" {
				return p
			}
		}
	case yaml.ScalarNode:
		if n.Line == line {
			best = at
		}
	}
	return best
}
