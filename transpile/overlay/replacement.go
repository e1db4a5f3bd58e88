package overlay

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/filters/replacement"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// Replacement copies a value from one document, or from the kustomization, to fields of other documents.
type Replacement struct {
	Source *Selector // Source is nil if the kustomization itself contains the value.
	Path   string    // Path is the path of the field in the source.
	Value  *string
	From   *types.FieldOptions
	Target *Selector
	Reject []*Selector
	Fields []TargetField
	To     *types.FieldOptions
}

// TargetField is one field into which a replacement copies its value.
type TargetField struct {
	Path string // Path is the path of the field in the object.
	At   origin.Pos
}

// readReject reads which documents the target of a replacement leaves out.
func (r *layerReader) readReject(t documents.YAMLText, target *yaml.Node, c *Replacement) bool {
	_, reject := documents.Field(target, "reject")
	if reject == nil {
		return true
	}
	for _, e := range reject.Content {
		s, ok := r.selector(e, c.Target.Info.Kind, t)
		if !ok {
			return false
		}
		_, kind := documents.Field(e, "kind")
		s.AnyName, s.HasIdentity = true, kind != nil || s.Name != ""
		c.Reject = append(c.Reject, s)
	}
	return true
}

func (r *layerReader) readFieldOptions(t documents.YAMLText, n *yaml.Node) (*types.FieldOptions, bool) {
	if n == nil {
		return nil, true
	}
	if r.unknownKey(t, n, "options", "delimiter", "index", "create") {
		return nil, false
	}
	out := &types.FieldOptions{
		Delimiter: documents.Scalar(n, "delimiter"),
		Create:    documents.Scalar(n, "create") == "true",
	}
	if _, v := documents.Field(n, "index"); v != nil {
		var err error
		if out.Index, err = strconv.Atoi(v.Value); err != nil {
			r.Add(origin.Errorf(t.Pos(v), "replacement", "an index is a number"))
			return nil, false
		}
	}
	return out, true
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

// readReplacements reads the list of replacements.
func (r *layerReader) readReplacements(list *yaml.Node) {
	for _, n := range list.Content {
		k, v := documents.Field(n, "path")
		if k == nil {
			r.readReplacement(r.text, n)
			continue
		}
		if len(n.Content) > 2 {
			r.Add(origin.Errorf(r.text.Pos(n), "replacement", "a replacement from a file has a path and nothing else"))
			continue
		}
		full, ok := r.local(r.text, v)
		if !ok {
			continue
		}
		src, err := r.Read(full)
		if err != nil {
			r.Add(documents.Unreadable(r.text.Pos(v), full, v.Value, err))
			continue
		}
		t := documents.YAMLText{File: full, Src: src}
		root, fs := t.Parse()
		r.Add(fs...)
		switch {
		case root == nil:
		case root.Kind == yaml.SequenceNode:
			for _, item := range root.Content {
				r.readReplacement(t, item)
			}
		default:
			r.readReplacement(t, root)
		}
	}
}

// readReplacement reads one replacement. Each target of a replacement becomes a step of its own.
func (r *layerReader) readReplacement(t documents.YAMLText, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a replacement is {source, targets}"))
		return
	}
	if r.unknownKey(t, n, "a replacement", "source", "sourceValue", "targets") {
		return
	}
	var c Replacement
	_, source := documents.Field(n, "source")
	_, value := documents.Field(n, "sourceValue")
	_, targets := documents.Field(n, "targets")
	switch {
	case (source == nil) == (value == nil):
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a replacement has either a source or a sourceValue"))
		return
	case targets == nil || targets.Kind != yaml.SequenceNode || len(targets.Content) == 0:
		r.Add(origin.Errorf(t.Pos(n), "replacement",
			"a replacement has targets: [{select: {name: …}, fieldPaths: […]}]"))
		return
	case value != nil && value.Kind != yaml.ScalarNode:
		r.Add(origin.Errorf(t.Pos(value), "replacement", "a sourceValue is text"))
		return
	case value != nil:
		c.Value = &value.Value
	case !r.readSource(t, source, &c):
		return
	}
	for _, target := range targets.Content {
		one := c
		if r.readTarget(t, target, &one) {
			r.step(&Step{At: t.Pos(target), Selector: one.Target, Transform: one})
		}
	}
}

// readTarget reads to which documents and fields a replacement copies its value.
func (r *layerReader) readTarget(t documents.YAMLText, n *yaml.Node, c *Replacement) bool {
	if n.Kind != yaml.MappingNode {
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a target is {select, fieldPaths}"))
		return false
	}
	if r.unknownKey(t, n, "a target", "select", "reject", "fieldPaths", "options") {
		return false
	}
	_, sel := documents.Field(n, "select")
	_, paths := documents.Field(n, "fieldPaths")
	_, options := documents.Field(n, "options")
	var ok bool
	if sel == nil {
		sel = &yaml.Node{Line: n.Line, Column: n.Column}
	}
	if c.Target, ok = r.selector(sel, documents.Butane, t); !ok {
		return false
	}
	c.Target.AnyName = true
	if !r.readReject(t, n, c) {
		return false
	}
	if paths == nil || paths.Kind != yaml.SequenceNode || len(paths.Content) == 0 {
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a target has fieldPaths, such as [storage.files.0.path]"))
		return false
	}
	for _, p := range paths.Content {
		if !r.readFieldPath(t, p, c) {
			return false
		}
	}
	c.To, ok = r.readFieldOptions(t, options)
	return ok
}

// readFieldPath reads the path of one field to which a replacement copies its value.
func (r *layerReader) readFieldPath(t documents.YAMLText, p *yaml.Node, c *Replacement) bool {
	f := TargetField{p.Value, t.Pos(p)}
	switch first, _, _ := strings.Cut(p.Value, "."); {
	case c.Target.Info.Wrapped:
		f.Path = c.Target.Info.Section + "." + p.Value
	case first == "kind", first == "apiVersion", p.Value == "metadata", p.Value == "metadata.name":
		r.Add(origin.Errorf(f.At, "replacement", "a document is known by its kind and name, and %s would change "+
			"them; use namePrefix or nameSuffix", p.Value))
		return false
	}
	if p.Kind != yaml.ScalarNode || p.Value == "" {
		r.Add(origin.Errorf(f.At, "replacement", "a field path is words with dots between them, such as "+
			"storage.files.0.path"))
		return false
	}
	c.Fields = append(c.Fields, f)
	return true
}

// readSource reads from which document and field a replacement copies its value.
func (r *layerReader) readSource(t documents.YAMLText, n *yaml.Node, c *Replacement) bool {
	if n.Kind != yaml.MappingNode {
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a source is {name, fieldPath}"))
		return false
	}
	id, options := documents.Mapping(), (*yaml.Node)(nil)
	c.Path = "metadata.name"
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k, v := n.Content[i], n.Content[i+1]; k.Value {
		case "fieldPath":
			if c.Path = v.Value; v.Kind != yaml.ScalarNode || v.Value == "" {
				r.Add(origin.Errorf(t.Pos(v), "replacement", "a fieldPath is words with dots between them, such as "+
					"storage.files.0.path"))
				return false
			}
		case "options":
			options = v
		default:
			id.Content = append(id.Content, k, v)
		}
	}
	id.Line, id.Column = n.Line, n.Column
	sel, ok := r.selector(id, documents.Butane, t)
	if !ok {
		return false
	}
	if _, said := documents.Field(n, "fieldPath"); said != nil && sel.Info.Wrapped {
		c.Path = sel.Info.Section + "." + c.Path
	}
	sel.ByID, sel.IsSource, c.Source = sel.Name != "", true, sel
	c.From, ok = r.readFieldOptions(t, options)
	return ok
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
