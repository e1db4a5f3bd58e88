package document

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// yamlReader has the limits of a document.
type yamlReader struct {
	aliases bool // whether an alias may stand for its value
	values  int
}

func comments(b Branch, text string, inline bool) Branch {
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			b = append(b, Item{Comment{line[1:], inline}, nil})
		}
	}
	return b
}

func listComments(l []any, text string, inline bool) []any {
	for _, it := range comments(nil, text, inline) {
		l = append(l, it.Key)
	}
	return l
}

// keptTags are those that a value has without a tag, and !!binary, whose value is written as the text for which it
// stands.
var keptTags = []string{
	"!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!map", "!!seq", "!!merge", "!!binary",
}

// count refuses too many or too deeply nested values, and tags, which SOPS loses.
func (r *yamlReader) count(n *yaml.Node, depth int) error {
	if n.Tag != "" && !slices.Contains(keptTags, n.Tag) {
		return fmt.Errorf("line %d: the tag %s: SOPS would lose it", n.Line, n.Tag)
	}
	if r.values++; r.values > maxValues || depth > maxDepth {
		return fmt.Errorf("line %d: the file has more than %d values, or more than %d levels", n.Line, maxValues,
			maxDepth)
	}
	return nil
}

// branch appends a mapping, or that of a document. done: the caller has added the node's own comments.
func (r *yamlReader) branch(n *yaml.Node, b Branch, done bool, depth int) (Branch, error) {
	if err := r.count(n, depth); err != nil {
		return nil, err
	}
	if !done {
		b = comments(comments(b, n.HeadComment, false), n.LineComment, false)
	}
	var err error
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			if b, err = r.branch(c, b, false, depth+1); err != nil {
				return nil, err
			}
		}
	case yaml.MappingNode:
		if b, err = r.items(n, b, depth); err != nil {
			return nil, err
		}
	case yaml.AliasNode:
		return r.alias(n, b, depth)
	default:
		if n.ShortTag() != "!!null" {
			return nil, fmt.Errorf("line %d: the file is not a mapping, and SOPS encrypts only mappings", n.Line)
		}
		if r.aliases { // a plain file
			return nil, fmt.Errorf("line %d: a document is empty, and SOPS would write it as a mapping", n.Line)
		}
		return b, nil
	}
	if !done {
		b = comments(b, n.FootComment, false)
	}
	return b, nil
}

func (r *yamlReader) alias(n *yaml.Node, b Branch, depth int) (Branch, error) {
	if !r.aliases {
		return nil, fmt.Errorf("line %d: YAML alias *%s: SOPS writes none, and a few of them can unfold into gigabytes",
			n.Line, n.Value)
	}
	return r.branch(n.Alias, b, false, depth+1)
}

func (r *yamlReader) items(n *yaml.Node, b Branch, depth int) (Branch, error) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		var key any
		if err := errors.Join(r.count(k, depth), k.Decode(&key)); err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok || seen[name] {
			return nil, fmt.Errorf("line %d: the key %q is not a string, or occurs twice", k.Line, k.Value)
		}
		seen[name] = true
		b = comments(comments(b, k.HeadComment, false), k.LineComment, false)
		scalar := v.Kind == yaml.ScalarNode || v.Kind == yaml.AliasNode
		if scalar {
			b = comments(comments(b, v.HeadComment, false), v.LineComment, true)
		}
		value, err := r.value(v, scalar, depth+1)
		if err != nil {
			return nil, err
		}
		b = append(b, Item{name, value})
		if scalar {
			b = comments(b, v.FootComment, false)
		}
		b = comments(b, k.FootComment, false)
	}
	return b, nil
}

func (r *yamlReader) value(n *yaml.Node, done bool, depth int) (any, error) {
	if err := r.count(n, depth); err != nil {
		return nil, err
	}
	switch n.Kind {
	case yaml.SequenceNode:
		return r.list(n, done, depth)
	case yaml.MappingNode:
		return r.branch(n, Branch{}, done, depth)
	case yaml.AliasNode:
		if !r.aliases {
			return r.alias(n, nil, depth)
		}
		return r.value(n.Alias, false, depth+1)
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, err
	}
	switch f := v.(type) {
	case string, int, bool, time.Time, nil:
		return v, nil
	case float64:
		if strings.Trim(n.Value, "+-0123456789_") != "" || f == 0 {
			return v, nil
		}
	}
	return nil, fmt.Errorf("line %d: the number %s is too large", n.Line, n.Value)
}

func (r *yamlReader) list(n *yaml.Node, done bool, depth int) (any, error) {
	var l []any
	if !done {
		l = listComments(listComments(l, n.HeadComment, false), n.LineComment, false)
	}
	for _, c := range n.Content {
		l = listComments(listComments(l, c.HeadComment, false), c.LineComment, true)
		v, err := r.value(c, true, depth+1)
		if err != nil {
			return nil, err
		}
		l = listComments(append(l, v), c.FootComment, false)
	}
	if !done {
		l = listComments(l, n.FootComment, false)
	}
	return l, nil
}
