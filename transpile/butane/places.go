package butane

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	cpath "github.com/coreos/vcontext/path"
	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// pathOf writes a path as its String does, at a tenth of the cost.
func pathOf(p cpath.ContextPath) string {
	var b strings.Builder
	b.WriteByte('$')
	for _, e := range p.Path {
		b.WriteByte('.')
		switch e := e.(type) {
		case string:
			b.WriteString(e)
		case int:
			b.WriteString(strconv.Itoa(e))
		default:
			return p.String()
		}
	}
	return b.String()
}

// placer finds where each part of an output comes from: the line of the document that says it, or the local file that
// it was read from.
type placer struct {
	in    Input
	doc   *yaml.Node
	files []ign.File // of the output
	at    map[string]origin.Pos
}

// places fills in the output's places. Steps map its paths to the document's.
func (t *translator) places(out *Output, steps map[string]string) {
	out.Origin = t.in.Origin.Through(steps)
	if root, ok := t.in.Origin.At["$"]; ok {
		out.Origin.At["$"] = root
	}
	t.plain.places(t.in.Origin, out.Origin.At)
	p := placer{t.in, t.doc, out.Config.Ignition.Storage.Files, out.Origin.At}
	keys := map[string][]string{} // file of keys in the document → its keys in the output
	for to, from := range steps {
		i := strings.LastIndexByte(from, '.')
		switch {
		case strings.HasSuffix(from, ".local") && strings.HasSuffix(to, ".source"), strings.HasSuffix(from, ".contents_local"):
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

// local is the file that the document names at a path.
func (p placer) local(at string) string {
	if n := lookup(p.doc, at); n != nil {
		return text(n)
	}
	return ""
}

// keys gives each key of a file of keys its line. Butane takes the lines that are not empty, in order.
func (p placer) keys(file string, paths []string) {
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

// lastIndex is the number at a path's end, or -1.
func lastIndex(p string) int {
	n, err := strconv.Atoi(p[strings.LastIndexByte(p, '.')+1:])
	if err != nil {
		return -1
	}
	return n
}

// said maps what a tree says of all its files and directories to the leaves that it becomes.
var said = map[string][]struct{ leaf, key string }{
	"files":       {{"user", "user"}, {"group", "group"}, {"mode", "file_mode"}},
	"directories": {{"user", "user"}, {"group", "group"}, {"mode", "dir_mode"}},
}

// tree gives a part of a tree its file. What the document itself says of all of a tree stays where it says it, and so
// does a directory, which has no lines.
func (p placer) tree(to, tree string) {
	list, rest, _ := strings.Cut(strings.TrimPrefix(to, "$.storage."), ".")
	number, leaf, _ := strings.Cut(rest, ".")
	n := lookup(p.doc, tree)
	for _, s := range said[list] {
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

// lookup finds what stands at a path of a document.
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
