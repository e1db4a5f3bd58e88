package overlay

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// matches reports whether the kind and the names of a document match a selector. Labels are compared later, by
// MatchesMetadata.
func (s *Selector) matches(d *document) bool {
	switch {
	case s == nil:
		return true
	case d.file.Info.Kind != s.Info.Kind || d.dropped:
		return false
	case s.ByID:
		return slices.Contains(d.names, s.Name)
	}
	names := d.names
	if !s.AnyName {
		names = []string{d.names[0], d.name()}
	}
	return s.Pattern == nil || slices.ContainsFunc(names, s.Pattern.MatchString)
}

// unmatched is a selector that matches no document of its layer.
type unmatched struct {
	selector *Selector
	scope    []identity
	why      string // why is the reason why no document matches, if it is not the usual reason.
}

// find returns the documents whose kind and name a selector matches.
func (g *gatherer) find(s *Selector, all *documentSet) []*document {
	docs := all.docs
	if s.Name != "" && regexp.QuoteMeta(s.Name) == s.Name {
		docs = all.named[identity{s.Info.Kind, s.Name}]
	}
	var out []*document
	for _, d := range docs {
		if s.matches(d) {
			out = append(out, d)
		}
	}
	missing := unmatched{selector: s}
	switch {
	case s.ByID && len(out) > 1:
		missing.why = fmt.Sprintf("more than one document here is, or was, named %q; name the one as it is named "+
			"now, or build it apart", s.Name)
	case len(out) > 0:
		return out
	default:
		for _, d := range all.docs {
			missing.scope = append(missing.scope, identity{d.file.Info.Kind, d.name()})
		}
	}
	g.unmatched = append(g.unmatched, missing)
	return nil
}

// reportUnmatched adds a finding for each selector that matches no document. The build calls reportUnmatched after it
// has read all layers.
func (g *gatherer) reportUnmatched() {
	for _, m := range g.unmatched {
		g.Add(origin.Errorf(m.selector.At, "patch-target", "%s", g.unmatchedMessage(m)))
	}
}

func (g *gatherer) unmatchedMessage(m unmatched) string {
	if m.why != "" {
		return m.why
	}
	s := m.selector
	var names, others []string
	otherKind := documents.Kind("")
	slices.SortFunc(m.scope, func(x, y identity) int {
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.kind, y.kind))
	})
	for _, id := range m.scope {
		names = append(names, id.name)
		if id.kind != s.Info.Kind && (s.Pattern == nil || s.Pattern.MatchString(id.name)) &&
			(!s.ByID || s.Name == id.name) {
			others = append(others, id.name+" is a "+string(id.kind))
			otherKind = cmp.Or(otherKind, id.kind)
		}
	}
	var elsewhere []string
	for _, d := range g.documents {
		if s.matches(d) {
			elsewhere = append(elsewhere, d.file.Path)
		}
	}
	slices.Sort(elsewhere)
	switch {
	case len(others) > 0:
		return fmt.Sprintf("no document of kind %s matches, but %s: write `kind: %s`", s.Info.Kind, some(others),
			otherKind)
	case len(elsewhere) > 0:
		return fmt.Sprintf("no resource of %[2]s has the name %[1]q. This patch does not reach %[3]s in another "+
			"directory: move the patch to the kustomization that lists both", s.Name, s.File,
			some(slices.Compact(elsewhere)))
	case s.Name == "":
		return fmt.Sprintf("no document of kind %s is here", s.Info.Kind)
	case s.IsSource:
		return fmt.Sprintf("no document is named %q here, so the replacement has no source; there are %s", s.Name,
			some(slices.Compact(names)))
	case s.ByID:
		return fmt.Sprintf("no document is named %q here; name the patch file as the document's, or give the patch a "+
			"target such as {name: 10-chrony}", s.Name)
	default:
		return fmt.Sprintf("no document is named %q here; there are %s", s.Name, some(slices.Compact(names)))
	}
}

// some lists at most 20 of the given words for a message.
func some(words []string) string {
	const enough = 20
	if len(words) > enough {
		words = append(words[:enough:enough], fmt.Sprintf("%d more", len(words)-enough))
	}
	return strings.Join(words, ", ")
}

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
