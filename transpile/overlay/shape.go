package overlay

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// checkShapes finds mappings where lists belong, and the other way round. kustomize refuses them too where it merges, but
// names no line and prints what stands there, which may be a secret.
func (t text) checkShapes(root *yaml.Node, lists []list) []origin.Finding {
	s := shaper{text: t, lists: map[string]bool{}, seen: map[*yaml.Node]bool{}}
	for _, l := range lists {
		s.lists[l.path] = true
	}
	for _, l := range lists {
		s.walk(root, nil, strings.Split(l.path, "."))
	}
	return s.found
}

type shaper struct {
	text
	lists map[string]bool
	seen  map[*yaml.Node]bool
	found []origin.Finding
}

// walk goes down the keys that are left, from what stands below those that it came by.
func (s *shaper) walk(n *yaml.Node, came, left []string) {
	if n == nil || n.Tag == "!!null" {
		return
	}
	at := strings.Join(came, ".")
	if !s.lists[at] {
		if n.Kind != yaml.MappingNode {
			s.say(n, at+" is a mapping of fields, not a list or a single value")
		} else if len(left) > 0 {
			_, v := field(n, left[0])
			s.walk(v, append(came[:len(came):len(came)], left[0]), left[1:])
		}
		return
	}
	if n.Kind != yaml.SequenceNode {
		s.say(n, at+" is a list: begin each of its items with -")
		return
	}
	if len(left) == 0 {
		return
	}
	for _, item := range n.Content {
		if item.Kind != yaml.MappingNode {
			s.say(item, "an item of "+at+" is a mapping of fields, not a list or a single value")
			continue
		}
		_, v := field(item, left[0])
		s.walk(v, append(came[:len(came):len(came)], left[0]), left[1:])
	}
}

func (s *shaper) say(n *yaml.Node, what string) {
	if !s.seen[n] {
		s.seen[n] = true
		s.found = append(s.found, fatal(s.pos(n), "shape", "%s", what))
	}
}
