package documents

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Document is one document with the changes of all layers of the overlay.
type Document struct {
	// Name is metadata.name of an object that has one. For any other document, Name is the file's name without its
	// extension. Name includes the prefixes and suffixes of the overlay.
	Name string
	// Kind is the kind of the document.
	Kind Kind
	// File is the file that declares the document. Patches in other files may change the document.
	File string
	// Source is the document as YAML. For an Ignition config without patches, Source is the file's own text. Butane
	// documents name local files relative to the root of the file system.
	Source []byte
	// Origin maps paths in the document (`$.storage.files.0.mode`) to the line that wrote them last. Origin.Files lists
	// the declaring file and every file that wrote a line of the document.
	Origin origin.Map
	// Key is a digest, in hex, of all fields above: documents with equal keys are equal.
	Key string
}

// Document returns the document of a file for one source text and its positions.
func (all *Files) Document(f *File, name string, src []byte, at map[string]origin.Pos) Document {
	d := Document{Name: name, Kind: f.Info.Kind, File: f.Path, Source: src}
	at["$"] = origin.Pos{File: f.Path, Line: 1}
	d.Origin = origin.Map{At: at, Files: filesOf(all.Reads, f.Path, at)}
	d.Key = d.key()
	return d
}

func (d Document) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q\n", d.Name, d.Kind, d.File, d.Origin.Files)
	h.Write(d.Source)
	var line []byte
	for _, p := range slices.Sorted(maps.Keys(d.Origin.At)) {
		at := d.Origin.At[p]
		line = append(append(line[:0], '\n'), p...)
		line = strconv.AppendInt(append(line, ' '), int64(at.Line), 10)
		line = strconv.AppendInt(append(line, ':'), int64(at.Column), 10)
		h.Write(line)
		_, _ = io.WriteString(h, at.File)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// filesOf lists the file that declares a document, and all files that wrote a line of the document.
func filesOf(reads map[string]string, declaring string, at map[string]origin.Pos) []origin.File {
	paths := map[string]string{declaring: reads[declaring]}
	for _, p := range at {
		if p.File != "" {
			paths[p.File] = reads[p.File]
		}
	}
	out := make([]origin.File, 0, len(paths))
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		out = append(out, origin.File{Path: p, Blob: paths[p]})
	}
	return out
}

// Positions finds the positions of a tree's entries.
type Positions struct {
	Files YAMLFiles
	// AtKeys is true if each value already has the position of its key: YAMLText.MoveToKeys sets these positions.
	AtKeys bool
}

// Of returns the position of each path of a tree.
func (p Positions) Of(root *yaml.Node) map[string]origin.Pos {
	out := map[string]origin.Pos{}
	p.collect(root, "$", out)
	return out
}

// collect adds the positions of everything below n. The parameter at is the path of n.
func (p Positions) collect(n *yaml.Node, at string, out map[string]origin.Pos) {
	one := func(path string, n *yaml.Node) {
		if pos := p.Files.Pos(n); pos.Line > 0 {
			out[path] = pos
		}
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			child := at + "." + k.Value
			if p.AtKeys {
				one(child, v)
			} else {
				one(child, k)
			}
			p.collect(v, child, out)
		}
		if _, ok := out[at]; !ok && at != "$" {
			if pos, ok := itemPosition(n, at, out); ok {
				out[at] = pos
			}
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			child := at + "." + strconv.Itoa(i)
			if c.Kind == yaml.ScalarNode {
				one(child, c)
			}
			p.collect(c, child, out)
		}
	}
}

// itemPosition returns the position of a list's item. The result is the position of the item's merge key, or otherwise
// of its first entry.
func itemPosition(n *yaml.Node, at string, known map[string]origin.Pos) (origin.Pos, bool) {
	for _, key := range []string{"path", "name", "device", "local"} {
		if pos, ok := known[at+"."+key]; ok {
			return pos, true
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if pos, ok := known[at+"."+n.Content[i].Value]; ok {
			return pos, true
		}
	}
	return origin.Pos{}, false
}
