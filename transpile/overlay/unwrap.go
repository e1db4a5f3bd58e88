package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// unwrapping says which document an object is.
type unwrapping struct {
	file *file
	name string
	from sources
	// changed: it is no more as its file has it, and settled.
	changed bool
}

// verbatim tells whether the file's own text says what the document says.
func (u unwrapping) verbatim() bool {
	kind := u.file.about.kind
	return !u.changed && (kind == Ignition || kind == Butane && !u.file.rewritten)
}

// unwrap makes the document of an object: what it says, and where each leaf of it comes from.
func (t *tree) unwrap(root *yaml.Node, u unwrapping) (Document, error) {
	f := u.file
	d := Document{Name: u.name, Kind: f.about.kind, File: f.path, Origin: origin.Map{At: map[string]origin.Pos{"$": {File: f.path, Line: 1}}}}
	if f.about.plain {
		root = f.about.content(root)
	}
	p := places{u.from, u.changed, d.Origin.At}
	p.note(root, "$")
	d.Origin.Files = t.filesOf(d)
	var err error
	if d.Source = f.src; !u.verbatim() {
		d.Source, err = encode(root)
	}
	d.Key = d.key()
	return d, err
}

func (d Document) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q\n", d.Name, d.Kind, d.File, d.Origin.Files)
	h.Write(d.Source)
	var line []byte
	for _, p := range sortedKeys(d.Origin.At) {
		at := d.Origin.At[p]
		line = append(append(line[:0], '\n'), p...)
		line = strconv.AppendInt(append(line, ' '), int64(at.Line), 10)
		line = strconv.AppendInt(append(line, ':'), int64(at.Column), 10)
		h.Write(line)
		_, _ = io.WriteString(h, at.File)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// filesOf lists the files that wrote a line of the document.
func (t *tree) filesOf(d Document) []origin.File {
	paths := map[string]string{d.File: t.reads[d.File]}
	for _, p := range d.Origin.At {
		if p.File != "" {
			paths[p.File] = t.reads[p.File]
		}
	}
	out := make([]origin.File, 0, len(paths))
	for _, p := range sortedKeys(paths) {
		out = append(out, origin.File{Path: p, Blob: paths[p]})
	}
	return out
}

// places notes where a document's entries come from.
type places struct {
	from    sources
	settled bool // see settle; otherwise a value's place is its key's
	at      map[string]origin.Pos
}

// note does so for everything below n, whose path is at.
func (p places) note(n *yaml.Node, at string) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			child := at + "." + k.Value
			if p.settled {
				p.one(child, v)
			} else {
				p.one(child, k)
			}
			p.note(v, child)
		}
		if _, ok := p.at[at]; !ok {
			if pos, ok := p.item(n, at); ok {
				p.at[at] = pos
			}
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			child := at + "." + strconv.Itoa(i)
			if c.Kind == yaml.ScalarNode {
				p.one(child, c)
			}
			p.note(c, child)
		}
	}
}

func (p places) one(at string, n *yaml.Node) {
	if pos := p.from.pos(n); pos.Line > 0 {
		p.at[at] = pos
	}
}

// item is where an item of a list stands: at its key, or at its first entry.
func (p places) item(n *yaml.Node, at string) (origin.Pos, bool) {
	for _, key := range []string{"path", "name", "device", "local"} {
		if pos, ok := p.at[at+"."+key]; ok {
			return pos, true
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if pos, ok := p.at[at+"."+n.Content[i].Value]; ok {
			return pos, true
		}
	}
	return origin.Pos{}, false
}
