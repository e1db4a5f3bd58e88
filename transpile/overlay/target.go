package overlay

import (
	"regexp"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// selectorOf reads a target. kind is what a target that names none means. It refuses what kustomize would pass over in
// silence, so that the change would be missing on every node.
func (r *reader) selectorOf(target *yaml.Node, kind Kind, t text) (*selector, bool) {
	if target == nil || target.Kind != yaml.MappingNode {
		at := t.pos(&yaml.Node{Line: 1})
		if target != nil {
			at = t.pos(target)
		}
		r.add(fatal(at, "patch-target", "a target is a mapping, such as {name: 10-chrony}"))
		return nil, false
	}
	if k, v := field(target, "kind"); k != nil {
		kind = Kind(v.Value)
		if _, known := kind.about(); !known {
			r.add(fatal(t.pos(v), "patch-target", "there is no kind %q here; a target is of kind %s", v.Value, kindNames()))
			return nil, false
		}
	}
	a, _ := kind.about()
	s := &selector{about: a, at: t.pos(target), file: r.layer.file}
	for i := 0; i+1 < len(target.Content); i += 2 {
		k, v := target.Content[i], target.Content[i+1]
		ok := v.Kind == yaml.ScalarNode
		switch {
		case k.Value == "kind":
		case k.Value == "name" && ok:
			s.name, s.at = v.Value, t.pos(v)
		case k.Value == "labelSelector" && ok:
			s.labels = v.Value
		case k.Value == "annotationSelector" && ok:
			s.annotations = v.Value
		case k.Value == "group" && ok && v.Value == a.group, k.Value == "version" && ok && v.Value == a.version:
		default:
			r.add(fatal(t.pos(k), "patch-target", "a target has name, kind, labelSelector and annotationSelector, and %s: %s means no document here; remove it", k.Value, oneWord(v)))
			return nil, false
		}
	}
	return s, r.compile(s, target, t)
}

func (r *reader) compile(s *selector, target *yaml.Node, t text) bool {
	if s.name != "" {
		re, err := regexp.Compile("^(?:" + s.name + ")$")
		if err != nil {
			r.add(fatal(s.at, "patch-target", "%q is not a regular expression: %v", s.name, err))
			return false
		}
		s.re = re
	}
	for key, words := range map[string]string{"labelSelector": s.labels, "annotationSelector": s.annotations} {
		if _, err := kyaml.NewRNode(mapping()).MatchesLabelSelector(words); err != nil {
			_, v := field(target, key)
			r.add(fatal(t.pos(v), "patch-target", "%q is not a selector such as tier=edge: %v", words, err))
			return false
		}
	}
	return true
}

// chosen tells whether a document, as it is now, has the labels and annotations that the selector asks for.
func (s *selector) chosen(root *yaml.Node) bool {
	if s == nil || s.labels == "" && s.annotations == "" {
		return true
	}
	n := kyaml.NewRNode(root)
	labels, err := n.MatchesLabelSelector(s.labels)
	if err != nil || !labels {
		return false
	}
	annotations, err := n.MatchesAnnotationSelector(s.annotations)
	return err == nil && annotations
}

// depends tells whether that is not known before the document is built.
func (s *selector) depends() bool { return s != nil && s.labels+s.annotations != "" }

// key is all that the selector says.
func (s *selector) key() string {
	if s == nil {
		return ""
	}
	return keyOf(string(s.about.kind), s.name, s.labels, s.annotations)
}

func oneWord(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return "…"
	}
	return n.Value
}
