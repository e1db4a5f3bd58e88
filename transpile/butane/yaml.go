package butane

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func scalar(n *yaml.Node, key string) string {
	if c := child(n, key); c != nil && c.Kind == yaml.ScalarNode && c.Tag != "!!null" {
		return c.Value
	}
	return ""
}

// text returns the string that a scalar decodes to.
func text(n *yaml.Node) string {
	var s string
	if n.Decode(&s) != nil {
		return n.Value
	}
	return s
}

// textAt returns the string at a path, or "" if there is no scalar.
func textAt(doc *yaml.Node, at string) string {
	if n := lookup(doc, at); n != nil && n.Kind == yaml.ScalarNode {
		return text(n)
	}
	return ""
}

// pathAtLine returns the path of the value in a line of the document. Butane's type errors name only the line.
func pathAtLine(n *yaml.Node, line int, at string) string {
	best := ""
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			here := at + "." + n.Content[i].Value
			if p := pathAtLine(n.Content[i+1], line, here); p != "" {
				return p
			}
			if n.Content[i].Line == line {
				best = here
			}
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			if p := pathAtLine(c, line, fmt.Sprintf("%s.%d", at, i)); p != "" {
				return p
			}
		}
	case yaml.ScalarNode:
		if n.Line == line {
			best = at
		}
	}
	return best
}
