package overlay

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// Selector selects documents, as a target of a patch or a replacement does.
type Selector struct {
	Info documents.Info
	// If ByID is true, the selector selects the only document that has or had this name.
	ByID bool
	// IsSource is true if a replacement copies its value from the document.
	IsSource bool
	Name     string
	// Pattern is compared with the first and the current name of a document; nil matches all names.
	Pattern             *regexp.Regexp
	Labels, Annotations string
	// If AnyName is true, the selector compares all names that a document had, as replacements do.
	AnyName bool
	// HasIdentity is true if the selector has fields other than labels and annotations.
	HasIdentity bool
	At          origin.Pos
	File        string // File is the path of the kustomization that contains the selector.
}

// selector reads a target. The parameter kind is the kind if the target names none. selector refuses targets that
// kustomize would ignore silently, because the change would be missing on every node.
func (r *layerReader) selector(target *yaml.Node, kind documents.Kind, t documents.YAMLText) (*Selector, bool) {
	if target == nil || target.Kind != yaml.MappingNode {
		at := t.Pos(&yaml.Node{Line: 1})
		if target != nil {
			at = t.Pos(target)
		}
		r.Add(origin.Errorf(at, "patch-target", "a target is a mapping, such as {name: 10-chrony}"))
		return nil, false
	}
	info, ok := r.targetKind(target, kind, t)
	if !ok {
		return nil, false
	}
	s := &Selector{Info: info, At: t.Pos(target), File: r.layer.File}
	for i := 0; i+1 < len(target.Content); i += 2 {
		k, v := target.Content[i], target.Content[i+1]
		if v.Kind != yaml.ScalarNode || !s.set(k.Value, v.Value) {
			r.Add(origin.Errorf(t.Pos(k), "patch-target", "a target has name, kind, labelSelector and "+
				"annotationSelector, and %s: %s selects nothing here; remove it", k.Value, scalarText(v)))
			return nil, false
		}
		if k.Value == "name" {
			s.At = t.Pos(v)
		}
	}
	return s, r.compile(s, target, t)
}

// targetKind returns the kind of a target, or the default.
func (r *layerReader) targetKind(target *yaml.Node, kind documents.Kind, t documents.YAMLText) (documents.Info, bool) {
	k, v := documents.Field(target, "kind")
	if k == nil {
		info, _ := kind.Info()
		return info, true
	}
	info, known := documents.Kind(v.Value).Info()
	if !known {
		r.Add(origin.Errorf(t.Pos(v), "patch-target", "there is no kind %q here; a target is of kind %s", v.Value,
			documents.KindNames()))
	}
	return info, known
}

// set sets one field of the selector. set returns false if the field would select nothing.
func (s *Selector) set(key, value string) bool {
	switch key {
	case "kind": // The method targetKind reads the kind.
	case "name":
		s.Name = value
	case "labelSelector":
		s.Labels = value
	case "annotationSelector":
		s.Annotations = value
	case "group":
		return value == s.Info.Group
	case "version":
		return value == s.Info.Version
	default:
		return false
	}
	return true
}

// compile compiles the regular expressions and label selectors of the selector.
func (r *layerReader) compile(s *Selector, target *yaml.Node, t documents.YAMLText) bool {
	if s.Name != "" {
		re, err := regexp.Compile("^(?:" + s.Name + ")$")
		if err != nil {
			r.Add(origin.Errorf(s.At, "patch-target", "%q is not a regular expression: %v", s.Name, err))
			return false
		}
		s.Pattern = re
	}
	for _, key := range []string{"labelSelector", "annotationSelector"} {
		words := documents.Scalar(target, key)
		if _, err := kyaml.NewRNode(documents.Mapping()).MatchesLabelSelector(words); err != nil {
			_, v := documents.Field(target, key)
			r.Add(origin.Errorf(t.Pos(v), "patch-target", "%q is not a selector such as tier=edge: %v", words, err))
			return false
		}
	}
	return true
}

// MatchesMetadata reports whether a document currently has the labels and annotations of the selector.
func (s *Selector) MatchesMetadata(root *yaml.Node) bool {
	if s == nil || s.Labels == "" && s.Annotations == "" {
		return true
	}
	n := kyaml.NewRNode(root)
	labels, err := n.MatchesLabelSelector(s.Labels)
	if err != nil || !labels {
		return false
	}
	annotations, err := n.MatchesAnnotationSelector(s.Annotations)
	return err == nil && annotations
}

// HasMetadata reports whether the selector has labels or annotations. For such a selector, the earlier layers decide
// which documents it matches.
func (s *Selector) HasMetadata() bool { return s != nil && s.Labels+s.Annotations != "" }

// scalarText returns a scalar for a message, or dots for any other node.
func scalarText(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return "…"
	}
	return n.Value
}

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
