package documents

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// CheckShapes finds mappings in place of lists, and lists in place of mappings. kustomize also refuses such values when
// it merges, but its error names no line and quotes the value, which may be a secret.
func CheckShapes(t YAMLText, root *yaml.Node, lists []List) []origin.Finding {
	s := shapeChecker{YAMLText: t, lists: map[string]bool{}, seen: map[*yaml.Node]bool{}}
	for _, l := range lists {
		s.lists[l.Path] = true
	}
	for _, l := range lists {
		s.walk(root, nil, strings.Split(l.Path, "."))
	}
	return s.found
}

type shapeChecker struct {
	YAMLText
	lists map[string]bool
	seen  map[*yaml.Node]bool
	found []origin.Finding
}

// walk follows the keys in left. The parameter n is the value to which the keys in came have led.
func (s *shapeChecker) walk(n *yaml.Node, came, left []string) {
	if n == nil || n.Tag == "!!null" {
		return
	}
	at := strings.Join(came, ".")
	if !s.lists[at] {
		if n.Kind != yaml.MappingNode {
			s.report(n, at+" is a mapping of fields, not a list or a single value")
		} else if len(left) > 0 {
			_, v := Field(n, left[0])
			s.walk(v, append(came[:len(came):len(came)], left[0]), left[1:])
		}
		return
	}
	if n.Kind != yaml.SequenceNode {
		s.report(n, at+" is a list: begin each of its items with -")
		return
	}
	if len(left) == 0 {
		return
	}
	for _, item := range n.Content {
		if item.Kind != yaml.MappingNode {
			s.report(item, "an item of "+at+" is a mapping of fields, not a list or a single value")
			continue
		}
		_, v := Field(item, left[0])
		s.walk(v, append(came[:len(came):len(came)], left[0]), left[1:])
	}
}

func (s *shapeChecker) report(n *yaml.Node, what string) {
	if !s.seen[n] {
		s.seen[n] = true
		s.found = append(s.found, origin.Errorf(s.Pos(n), "shape", "%s", what))
	}
}
