package overlay

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// unwrap takes one object of the build apart: the document, and where each leaf of it comes from.
func (b *builder) unwrap(src string) (Document, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(src), &doc); err != nil {
		return Document{}, fmt.Errorf("reading what kustomize wrote: %w", err)
	}
	root := doc.Content[0]
	_, meta := field(root, "metadata")
	_, annotations := field(meta, "annotations")
	d := Document{
		Name:   scalarAt(meta, "name"),
		Kind:   Kind(scalarAt(root, "kind")),
		File:   scalarAt(annotations, fileAnnotation),
		Origin: origin.Map{At: map[string]origin.Pos{}},
	}
	_, spec := field(root, "spec")
	if spec == nil {
		return Document{}, fmt.Errorf("the document %q is empty once it is patched; remove it from the resources", d.Name)
	}
	d.Origin.At["$"] = origin.Pos{File: d.File, Line: 1}
	prefix := "$"
	if d.Kind == MachineConfig {
		prefix = "$.spec"
		d.Origin.At[prefix] = b.items[item{d.File, "spec"}]
		remove(annotations, fileAnnotation)
	}
	s := stripper{builder: b, places: d.Origin.At}
	for _, e := range b.edits {
		if e.means(stem(d.File)) || e.means(d.Name) {
			s.edits = append(s.edits, e)
		}
	}
	s.strip(spec, prefix, "")
	d.Origin.Files = b.files(d)
	if d.Kind == Butane {
		root = spec
	}
	var err error
	d.Source, err = encode(root)
	return d, err
}

// files lists the files that wrote a line of the document.
func (b *builder) files(d Document) []origin.File {
	paths := map[string]string{d.File: b.reads[d.File]}
	for _, p := range d.Origin.At {
		if p.File != "" {
			paths[p.File] = b.reads[p.File]
		}
	}
	var out []origin.File
	for _, p := range sortedKeys(paths) {
		out = append(out, origin.File{Path: p, Blob: paths[p]})
	}
	return out
}

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

// means tells whether an edit is of a document.
func (e edit) means(document string) bool {
	re, err := regexp.Compile("^(?:" + e.target + ")$")
	return e.target == "" || err == nil && re.MatchString(document)
}

// stripper takes one document's markers out.
type stripper struct {
	*builder
	places map[string]origin.Pos
	edits  []edit // of this document
}

// strip takes the markers out of n and notes each entry's place under its path.
func (s *stripper) strip(n *yaml.Node, at, under string) {
	places := s.places
	if n == nil {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		_, marks := field(n, marker)
		remove(n, marker)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			child := at + "." + k.Value
			if p, ok := s.place(child, v, scalarAt(marks, k.Value)); ok {
				places[child] = p
			}
			s.strip(v, child, k.Value)
		}
		if _, ok := places[at]; !ok {
			if p, ok := itemPlace(n, at, places); ok {
				places[at] = p
			}
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			child := at + "." + strconv.Itoa(i)
			if c.Kind != yaml.ScalarNode {
				s.strip(c, child, under)
			} else if p, ok := s.items[item{under, c.Value}]; ok {
				places[child] = p
			} else if p, ok := s.edited(child); ok {
				places[child] = p
			}
		}
	}
}

// place is where an entry was written last: its marker, unless a JSON patch or replacement changed the value behind
// the marker's back.
func (s *stripper) place(at string, v *yaml.Node, mark string) (origin.Pos, bool) {
	p, print := parsePlace(mark)
	if mark != "" && (print == "-" || print == fingerprint(v)) {
		return p, true
	}
	if e, ok := s.edited(at); ok {
		return e, true
	}
	return p, mark != ""
}

// itemPlace is where an item of a list stands: at its key, or at its first entry.
func itemPlace(n *yaml.Node, at string, places map[string]origin.Pos) (origin.Pos, bool) {
	for _, key := range []string{"path", "name", "device", "local"} {
		if p, ok := places[at+"."+key]; ok {
			return p, true
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if p, ok := places[at+"."+n.Content[i].Value]; ok {
			return p, true
		}
	}
	return origin.Pos{}, false
}

// edited finds the JSON patch operation or replacement that reaches deepest towards a path.
func (s *stripper) edited(at string) (origin.Pos, bool) {
	best, found := edit{}, false
	for _, e := range s.edits {
		if covers(e.path, at) && len(e.path) >= len(best.path) {
			best, found = e, true
		}
	}
	return best.at, found
}

// covers tells whether an edit at one path writes another; "-" (append) and "*" stand for any item, and an item that is
// named by a key (`[name=x]`) may be any.
func covers(edit, at string) bool {
	e, a := strings.Split(edit, "."), strings.Split(at, ".")
	if len(e) > len(a) {
		return false
	}
	for i := range e {
		if e[i] != a[i] && e[i] != "-" && e[i] != "*" && !strings.HasPrefix(e[i], "[") {
			return false
		}
	}
	return true
}
