package lsp

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// definitionAt returns where the thing at a position is defined: the file that a path names, the document that a patch
// changes, the first document that sets an item, the documents of a pool.
func (s *snapshot) definitionAt(d document, at position) []origin.Pos {
	if name := factAt(d, at); name != "" {
		return s.factPlaces(d.file, name)
	}
	p, d, ok := placeIn(d, at)
	if !ok || s == nil {
		return nil
	}
	keys := p.schemaPath()
	value := p.value()
	switch {
	case value.Kind == yaml.ScalarNode && !d.patch && isReference(d.file, keys):
		return s.open(d.file, value.Value)
	case value.Kind == yaml.ScalarNode && s.isPool(value.Value) && isPoolName(d.file, keys):
		return append(s.pool(value.Value), s.open("pools/x", value.Value)...)
	case isKustomization(d.file) && !d.patch && strings.HasPrefix(strings.Join(keys, "."), "patches.-.target"):
		return s.named(documents.Scalar(p.nodes[2], "target", "name"))
	}
	if it, ok := p.item(); ok {
		var out []origin.Pos
		for _, of := range s.settersOf(it) {
			if len(of.item.Writers) == 0 {
				continue
			}
			first := of.item.Writers[0]
			if n := locate(s.root(first.Source), it); n != nil {
				out = appendNew(out, origin.Pos{File: first.Source, Line: n.Line, Column: n.Column})
			} else {
				out = appendNew(out, first.At.Pos)
			}
		}
		return out
	}
	if documents.Scalar(p.root, "kind") == "MachineConfigPool" && strings.HasPrefix(d.file, "cluster/") {
		return s.open("pools/x", documents.Scalar(p.root, "metadata", "name"))
	}
	declaring, _ := s.related(d.file)
	var out []origin.Pos
	for _, f := range declaring {
		out = append(out, origin.Pos{File: f, Line: 1, Column: 1})
	}
	if words := strings.Split(d.file, "/"); len(out) == 0 && len(words) == 3 && words[0] == "pools" {
		out = s.pool(words[1])
	}
	return out
}

// isPool reports whether the repository has documents or an object of a pool.
func (s *snapshot) isPool(name string) bool {
	return slices.Contains(s.result.Pools, name) || len(s.pool(name)) > 0
}

// pool returns the MachineConfigPool of a name in cluster/.
func (s *snapshot) pool(name string) (out []origin.Pos) {
	for _, o := range s.result.Cluster {
		if o.Object.GetKind() == review.PoolKind && o.Object.GetName() == name {
			out = append(out, origin.Pos{File: o.File, Line: o.Line, Column: 1})
		}
	}
	return out
}

// isPoolName reports whether the value of a field is the name of a pool: in the policies of cluster/, and in the label
// and the selectors of documents.
func isPoolName(file string, keys []string) bool {
	where := strings.Join(keys, ".")
	return strings.HasPrefix(file, "cluster/") && (strings.HasPrefix(where, "spec.pools.-") ||
		strings.HasPrefix(where, "spec.after.-") || strings.Contains(where, "Selector.match")) ||
		strings.HasSuffix(where, "metadata.labels.machineconfiguration.openshift.io/role")
}

// referencesAt returns the lines that set the item at a position, or that name the file around it.
func (s *snapshot) referencesAt(d document, at position) []origin.Pos {
	p, d, ok := placeIn(d, at)
	if !ok || s == nil {
		return nil
	}
	var out []origin.Pos
	if it, ok := p.item(); ok {
		for _, of := range s.settersOf(it) {
			for _, w := range of.item.Writers {
				out = appendNew(out, w.At.Pos)
				if n := locate(s.root(w.Source), it); n != nil { // What a patch of the document replaced counts too.
					out = appendNew(out, origin.Pos{File: w.Source, Line: n.Line, Column: n.Column})
				}
			}
			for _, a := range of.item.Attributes {
				out = appendNew(out, a.At.Pos)
				for _, w := range a.Replaced {
					out = appendNew(out, w.At.Pos)
				}
			}
		}
		slices.SortFunc(out, origin.Pos.Compare)
		return out
	}
	target := d.file
	if value := p.value(); value.Kind == yaml.ScalarNode && !d.patch &&
		isReference(d.file, p.schemaPath()) {
		if to, ok := resolve(d.file, value.Value); ok {
			target = to
		}
	}
	if kind := documents.Scalar(p.root, "kind"); kind == "MachineConfigPool" && strings.HasPrefix(d.file, "cluster/") {
		return s.open("pools/x", documents.Scalar(p.root, "metadata", "name"))
	}
	out = s.namings(target)
	_, patching := s.related(target)
	for _, f := range patching {
		out = appendNew(out, origin.Pos{File: f, Line: 1, Column: 1})
	}
	return out
}

// locate returns where a document sets an item; nil if it does not.
func locate(root *yaml.Node, it item) *yaml.Node {
	for _, l := range lists {
		if l.kind != it.kind {
			continue
		}
		for _, above := range [][]string{nil, {"spec"}, {"spec", "config"}} {
			for _, n := range documents.NodesBelow(root, append(above, l.path...)) {
				for _, c := range append(n.Content, n) {
					if l.key != "" && documents.Scalar(c, l.key) == it.name || l.key == "" && c.Value == it.name {
						return c
					}
				}
			}
		}
	}
	return nil
}

func appendNew(all []origin.Pos, p origin.Pos) []origin.Pos {
	if p.File == "" || slices.Contains(all, p) {
		return all
	}
	return append(all, p)
}

// open returns the beginning of what a path in a file leads to: a file, or the kustomization or the documents of a
// directory.
func (s *snapshot) open(file, to string) (out []origin.Pos) {
	target, ok := resolve(file, to)
	if !ok {
		return nil
	}
	if s.has(target) {
		return []origin.Pos{{File: target, Line: 1, Column: 1}}
	}
	for _, f := range s.files(target) {
		if path.Dir(f) == target && isKustomization(f) {
			return []origin.Pos{{File: f, Line: 1, Column: 1}}
		}
		if path.Dir(f) == target {
			out = append(out, origin.Pos{File: f, Line: 1, Column: 1})
		}
	}
	return out
}

// named returns the documents with a name, which is that of their file without the extension.
func (s *snapshot) named(name string) (out []origin.Pos) {
	for _, f := range s.result.Fragments {
		if name != "" && documents.Stem(f.File) == name {
			out = appendNew(out, origin.Pos{File: f.File, Line: 1, Column: 1})
		}
	}
	return out
}

// namings returns the lines of kustomizations that name a file, or the directory of a kustomization.
func (s *snapshot) namings(target string) (out []origin.Pos) {
	for _, file := range s.kustomizations() {
		root := s.root(file)
		for _, keys := range [][]string{{"resources"}, {"components"}, {"patches", "path"}} {
			for _, n := range documents.NodesBelow(root, keys) {
				entries := []*yaml.Node{n}
				if n.Kind == yaml.SequenceNode {
					entries = n.Content
				}
				for _, e := range entries {
					to, ok := resolve(file, e.Value)
					if ok && (to == target || isKustomization(target) && to == path.Dir(target)) {
						out = appendNew(out, origin.Pos{File: file, Line: e.Line, Column: e.Column})
					}
				}
			}
		}
	}
	return out
}
