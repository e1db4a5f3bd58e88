package document

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlIndent: what SOPS writes without a configuration
const yamlIndent = 4

// pending are the comments before the next value.
type pending struct {
	head, inline []string
	started      bool // whether the mapping or list has a value
}

// add returns true for a comment, and keeps it.
func (p *pending) add(v any) bool {
	c, ok := v.(Comment)
	switch {
	case ok && c.Inline:
		p.inline = append(p.inline, c.Text)
	case ok:
		p.head = append(p.head, c.Text)
	}
	return ok
}

// place writes the comments to a value of a mapping or list; those before the first value belong to the parent.
func (p *pending) place(parent, head, line *yaml.Node) {
	if !p.started {
		parent.HeadComment, p.head, p.started = joinComments(p.head, parent.HeadComment), nil, true
	}
	head.HeadComment = joinComments(p.head, head.HeadComment)
	line.LineComment = joinComments(nil, line.LineComment, joinComments(p.inline))
	p.head, p.inline = nil, nil
}

// finish writes the comments after the last value, which begins with the node last.
func (p *pending) finish(parent, last *yaml.Node) {
	rest := append(p.head, p.inline...)
	if len(rest) == 0 {
		return
	}
	if !p.started {
		parent.HeadComment = joinComments(rest, parent.HeadComment)
		return
	}
	last.FootComment = joinComments(nil, last.FootComment, joinComments(rest))
}

// joinComments writes comments in front of texts that are comments already.
func joinComments(comments []string, texts ...string) string {
	var lines []string
	for _, c := range comments {
		lines = append(lines, "#"+c)
	}
	for _, t := range texts {
		if t != "" {
			lines = append(lines, t)
		}
	}
	return strings.Join(lines, "\n")
}

func yamlMapping(branch Branch) (*yaml.Node, error) {
	n, p := &yaml.Node{Kind: yaml.MappingNode}, pending{}
	for _, it := range branch {
		if p.add(it.Key) {
			continue
		}
		key := &yaml.Node{}
		if err := key.Encode(it.Key); err != nil {
			return nil, err
		}
		value, err := yamlValue(it.Value)
		if err != nil {
			return nil, err
		}
		p.place(n, key, value)
		n.Content = append(n.Content, key, value)
	}
	if len(n.Content) == 0 {
		p.finish(n, nil)
	} else {
		p.finish(n, n.Content[len(n.Content)-2])
	}
	return n, nil
}

func yamlValue(v any) (*yaml.Node, error) {
	switch v := v.(type) {
	case Branch:
		return yamlMapping(v)
	case []any:
		n, p := &yaml.Node{Kind: yaml.SequenceNode}, pending{}
		for _, item := range v {
			if p.add(item) {
				continue
			}
			c, err := yamlValue(item)
			if err != nil {
				return nil, err
			}
			p.place(n, c, c)
			n.Content = append(n.Content, c)
		}
		if len(n.Content) == 0 {
			p.finish(n, nil)
		} else {
			p.finish(n, n.Content[len(n.Content)-1])
		}
		return n, nil
	}
	n := &yaml.Node{}
	return n, n.Encode(v)
}
