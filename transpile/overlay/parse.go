package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Limits on one YAML file: far beyond what people write, far below what hurts.
const (
	maxFileBytes = 4 << 20
	maxDepth     = 100
	maxNodes     = 400_000
)

// text is YAML with its place: all of a file, or a block within one.
type text struct {
	file string
	src  []byte
	// offset is added to line numbers; a block within another file has no columns of its own.
	offset int
	inline bool
}

func (t text) pos(n *yaml.Node) origin.Pos {
	if t.inline {
		return origin.Pos{File: t.file, Line: n.Line + t.offset}
	}
	return origin.Pos{File: t.file, Line: n.Line + t.offset, Column: n.Column}
}

func fatal(at origin.Pos, rule, format string, args ...any) origin.Finding {
	return origin.Finding{Rule: rule, Message: fmt.Sprintf(format, args...), At: at}
}

// parse reads exactly one YAML document without aliases and without keys that stand twice. The node is nil where
// there is a finding.
func (t text) parse() (*yaml.Node, []origin.Finding) {
	whole := origin.Pos{File: t.file, Line: t.offset}
	dec := yaml.NewDecoder(bytes.NewReader(t.yaml()))
	var doc, extra yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, []origin.Finding{fatal(whole, "empty-document", "the document is empty; write it or remove it")}
	case err != nil:
		return nil, []origin.Finding{t.syntax(err)}
	}
	switch err := dec.Decode(&extra); {
	case err == nil:
		return nil, []origin.Finding{fatal(t.pos(&extra), "multi-document", "a second YAML document begins here, and only the first would count; put each document in a file of its own")}
	case !errors.Is(err, io.EOF):
		return nil, []origin.Finding{t.syntax(err)}
	}
	root := doc.Content[0]
	nodes := maxNodes
	if fs := t.strict(root, 0, &nodes); len(fs) > 0 {
		return nil, firstAlias(fs)
	}
	if nodes < 0 {
		return nil, []origin.Finding{fatal(whole, "too-large", "the document has more than %d values; keep large contents in a file of their own and name it with `local:`", maxNodes)}
	}
	if root.Tag == "!!null" {
		return nil, []origin.Finding{fatal(whole, "empty-document", "the document is empty; write it or remove it")}
	}
	return root, nil
}

// escapes are what JSON writes behind a backslash: pairs of halves of what lies beyond 16 bits, and all else.
var escapes = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\.`)

// yaml is the text as YAML. JSON is that but for tabs before the first brace and for two escapes; lines stay the same.
func (t text) yaml() []byte {
	if path.Ext(t.file) != ignitionExt || t.inline {
		return t.src
	}
	src := t.src
	if i := bytes.IndexAny(src, "{["); i > 0 && len(bytes.TrimSpace(src[:i])) == 0 {
		src = slices.Concat(bytes.ReplaceAll(src[:i], []byte("\t"), []byte(" ")), src[i:])
	}
	if !bytes.Contains(src, []byte(`\/`)) && !bytes.Contains(src, []byte(`\ud`)) && !bytes.Contains(src, []byte(`\uD`)) {
		return src
	}
	return escapes.ReplaceAllFunc(src, func(m []byte) []byte {
		switch {
		case len(m) == 2 && m[1] == '/':
			return m[1:]
		case len(m) != 12:
			return m
		}
		high, _ := strconv.ParseUint(string(m[2:6]), 16, 16)
		low, _ := strconv.ParseUint(string(m[8:]), 16, 16)
		return fmt.Appendf(nil, `\U%08x`, utf16.DecodeRune(rune(high), rune(low)))
	})
}

// firstAlias keeps only the first of a document's aliases, as a bomb has thousands.
func firstAlias(fs []origin.Finding) []origin.Finding {
	found := false
	return slices.DeleteFunc(fs, func(f origin.Finding) bool {
		again := f.Rule == "alias" && found
		found = found || f.Rule == "alias"
		return again
	})
}

// strict finds aliases, merge keys, repeated keys and nesting beyond all measure, and counts down what is left of nodes.
// It takes comments out, as kustomize would read some of them as rules how to merge.
func (t text) strict(n *yaml.Node, depth int, left *int) []origin.Finding {
	*left--
	n.HeadComment, n.LineComment, n.FootComment, n.Anchor = "", "", "", ""
	if n.Style&yaml.FoldedStyle != 0 { // written again, folded text may come out otherwise
		n.Style = n.Style&^yaml.FoldedStyle | yaml.LiteralStyle
	}
	if depth > maxDepth {
		return []origin.Finding{fatal(t.pos(n), "too-deep", "nested more than %d levels deep", maxDepth)}
	}
	var out []origin.Finding
	switch n.Kind {
	case yaml.AliasNode:
		return []origin.Finding{fatal(t.pos(n), "alias", "YAML alias *%s: aliases are not followed, as a few of them can unfold into gigabytes; write the value out", n.Value)}
	case yaml.MappingNode:
		seen := make(map[string]*yaml.Node, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			k := n.Content[i]
			k.HeadComment, k.LineComment, k.FootComment, k.Anchor = "", "", "", ""
			switch first, twice := seen[k.Value]; {
			case k.Kind != yaml.ScalarNode:
				out = append(out, fatal(t.pos(k), "yaml", "a key must be a plain word"))
			case k.Tag == "!!merge":
				out = append(out, fatal(t.pos(k), "alias", "YAML merge key <<: aliases are not followed; write the values out"))
				continue
			case slices.Contains(reserved, k.Value):
				out = append(out, fatal(t.pos(k), "yaml", "the key %q is taken; choose another", k.Value))
			case twice:
				out = append(out, fatal(t.pos(k), "duplicate-key", "key %q stands twice, first in line %d; keep one", k.Value, first.Line+t.offset))
			}
			seen[k.Value] = k
			out = append(out, t.strict(n.Content[i+1], depth+1, left)...)
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			out = append(out, t.strict(c, depth+1, left)...)
		}
	}
	return out
}

// field returns the key and value of a mapping's entry, or nils.
func field(n *yaml.Node, key string) (k, v *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// scalarAt returns the scalar below a chain of keys, or "".
func scalarAt(n *yaml.Node, keys ...string) string {
	for _, k := range keys {
		_, n = field(n, k)
	}
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

func str(v string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v} }

func mapping(kv ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: kv}
}

// set replaces or adds an entry of a mapping.
func set(n *yaml.Node, key string, v *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = v
			return
		}
	}
	n.Content = append(n.Content, str(key), v)
}

func encode(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return b.Bytes(), nil
}
