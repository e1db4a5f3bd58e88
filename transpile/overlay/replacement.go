package overlay

import (
	"regexp"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/filters/replacement"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// selectors returns all selectors of a step that compare labels.
func selectors(s *Step) []*Selector {
	var out []*Selector
	if s.Selector != nil {
		out = append(out, s.Selector)
	}
	if c, ok := s.Transform.(Replacement); ok {
		out = append(out, c.Reject...)
	}
	return out
}

// mentionsKey reports whether a selector such as `tier=edge,!old` has a key.
func mentionsKey(selector, key string) bool {
	ok, err := regexp.MatchString(`(^|[^-._/\w])`+regexp.QuoteMeta(key)+`($|[^-._/\w])`, selector)
	return err == nil && ok
}

// planReplacement adds a change for each document to which a replacement copies its value.
func planReplacement(g *gatherer, r Replacement, s *Step, all *documentSet) {
	c := change{step: s}
	if r.Source != nil {
		sources := g.find(r.Source, all)
		if len(sources) == 0 {
			return
		}
		if len(sources) > 1 {
			g.unmatched = append(g.unmatched,
				unmatched{selector: r.Source, why: "more than one document is the source here; name the one"})
			return
		}
		c.source, c.sourceName = sources[0], sources[0].name()
	}
	for _, d := range g.find(r.Target, all) {
		if !rejects(r, d) {
			c.document, c.name = d, d.name()
			g.changes = append(g.changes, c)
		}
	}
}

// rejects reports whether the replacement excludes a document by its name or kind.
func rejects(r Replacement, d *document) bool {
	for _, s := range r.Reject {
		if s.HasIdentity && matches(s, d) {
			return true
		}
	}
	return false
}

func applyReplacement(r Replacement, c change) bool {
	for _, s := range r.Reject {
		if s.HasMetadata() && s.MatchesMetadata(c.document.root) {
			return true
		}
	}
	for _, f := range r.Fields {
		if !copyValue(r, c, f) || !c.checkSize() {
			return false
		}
	}
	return true
}

// copyValue calls kustomize to set one field of a document.
func copyValue(r Replacement, c change, f TargetField) bool {
	d := c.document
	one := types.Replacement{SourceValue: r.Value, Targets: []*types.TargetSelector{{
		Select: exactly(d.file.Info, c.name), FieldPaths: []string{f.Path}, Options: r.To,
	}}}
	nodes := []*kyaml.RNode{kyaml.NewRNode(d.root)}
	if r.Source != nil {
		one.Source = &types.SourceSelector{
			ResId: exactly(c.source.file.Info, c.sourceName).ResId, FieldPath: r.Path,
			Options: r.From,
		}
		if c.source != d {
			c.source.load()
			if c.source.root == nil || origin.Fatal(c.source.findings) {
				return d.fatal(r.Source.At, "replacement", "the source %q cannot be built", c.sourceName)
			}
			nodes = append(nodes, kyaml.NewRNode(c.source.root))
		}
	}
	if !isBounded(r, f, nodes) {
		return d.fatal(f.At, "too-large", "this could write a value of %d bytes to too many fields; name the fields",
			valueSize(r, nodes))
	}
	before := documents.Copy(d.root, 0)
	if _, err := (replacement.Filter{Replacements: []types.Replacement{one}}).Filter(nodes); err != nil {
		return d.kustomizeFailed(f.At, err)
	}
	d.files.SetChanged(before, d.root, f.At)
	return true
}

// isBounded reports whether a replacement writes a bounded number of bytes. A path with a wildcard may write to every
// field.
func isBounded(r Replacement, f TargetField, nodes []*kyaml.RNode) bool {
	return !strings.ContainsAny(f.Path, "*[") || valueSize(r, nodes)*count(nodes[0].YNode()) <= 4*maxGrown
}

// valueSize returns about how many bytes the value takes.
func valueSize(r Replacement, nodes []*kyaml.RNode) int {
	if r.Value != nil {
		return len(*r.Value)
	}
	n := nodes[len(nodes)-1]
	if found, err := n.Pipe(kyaml.Lookup(strings.Split(r.Path, ".")...)); err == nil && found != nil {
		return size(found.YNode(), maxGrown)
	}
	return 0
}

// count returns the number of nodes of a tree.
func count(n *yaml.Node) int {
	total := 1
	for _, c := range n.Content {
		total += count(c)
	}
	return total
}

// exactly returns a selector for the one document with a kind and name.
func exactly(info documents.Info, name string) *types.Selector {
	return &types.Selector{ResId: resid.ResId{Gvk: resid.Gvk{
		Group: info.Group, Version: info.Version,
		Kind: string(info.Kind),
	}, Name: name}}
}
