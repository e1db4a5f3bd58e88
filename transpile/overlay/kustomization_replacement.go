package overlay

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"

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

// readReplacements reads the list of replacements.
func readReplacements(r *layerReader, list *yaml.Node) {
	for _, n := range list.Content {
		k, v := documents.Field(n, "path")
		if k == nil {
			readReplacement(r, r.text, n)
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
				readReplacement(r, t, item)
			}
		default:
			readReplacement(r, t, root)
		}
	}
}

// readReplacement reads one replacement. Each target of a replacement becomes a step of its own.
func readReplacement(r *layerReader, t documents.YAMLText, n *yaml.Node) {
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
	case !readSource(r, t, source, &c):
		return
	}
	for _, target := range targets.Content {
		one := c
		if readTarget(r, t, target, &one) {
			r.step(&Step{At: t.Pos(target), Selector: one.Target, Transform: one})
		}
	}
}

// readSource reads from which document and field a replacement copies its value.
func readSource(r *layerReader, t documents.YAMLText, n *yaml.Node, c *Replacement) bool {
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
	c.From, ok = readFieldOptions(r, t, options)
	return ok
}

// readTarget reads to which documents and fields a replacement copies its value.
func readTarget(r *layerReader, t documents.YAMLText, n *yaml.Node, c *Replacement) bool {
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
	if !readReject(r, t, n, c) {
		return false
	}
	if paths == nil || paths.Kind != yaml.SequenceNode || len(paths.Content) == 0 {
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a target has fieldPaths, such as [storage.files.0.path]"))
		return false
	}
	for _, p := range paths.Content {
		if !readFieldPath(r, t, p, c) {
			return false
		}
	}
	c.To, ok = readFieldOptions(r, t, options)
	return ok
}

// readReject reads which documents the target of a replacement leaves out.
func readReject(r *layerReader, t documents.YAMLText, target *yaml.Node, c *Replacement) bool {
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

// readFieldPath reads the path of one field to which a replacement copies its value.
func readFieldPath(r *layerReader, t documents.YAMLText, p *yaml.Node, c *Replacement) bool {
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

func readFieldOptions(r *layerReader, t documents.YAMLText, n *yaml.Node) (*types.FieldOptions, bool) {
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
