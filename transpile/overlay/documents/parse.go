package documents

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"go.yaml.in/yaml/v3"
)

// reserved keys may not be in a document, because the overlay adds them while kustomize merges.
var reserved = []string{"__bunsen_origin", HiddenKey}

// HiddenKey is the merge key for lists whose items may have equal keys. With the real key, kustomize would drop the
// second of two equal items.
const HiddenKey = "__bunsen_key"

// IgnitionExt is the extension of files that hold one Ignition config.
const IgnitionExt = ".ign"

// The limits on one YAML file. The limits are larger than any file that people write, and small enough to keep parsing
// fast.
const (
	MaxBytes = 4 << 20
	maxDepth = 100
	maxNodes = 400_000
)

// YAMLText is YAML text with its position: a whole file, or a block within a file.
type YAMLText struct {
	File string
	Src  []byte
	// Offset is added to line numbers. A block within another file has no columns.
	Offset int
	Inline bool
}

// Pos returns the position of a node of the text in its file.
func (t YAMLText) Pos(n *yaml.Node) origin.Pos {
	if t.Inline {
		return origin.Pos{File: t.File, Line: n.Line + t.Offset}
	}
	return origin.Pos{File: t.File, Line: n.Line + t.Offset, Column: n.Column}
}

// Parse reads exactly one YAML document without aliases and repeated keys. The node is nil if there is a finding.
func (t YAMLText) Parse() (*yaml.Node, []origin.Finding) {
	whole := origin.Pos{File: t.File, Line: t.Offset}
	dec := yaml.NewDecoder(bytes.NewReader(t.yaml()))
	var doc, extra yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, []origin.Finding{origin.Errorf(whole, "empty-document", "the document is empty; write it or "+
			"remove it")}
	case err != nil:
		return nil, []origin.Finding{t.syntax(err)}
	}
	switch err := dec.Decode(&extra); {
	case err == nil && isNothing(&extra) && errors.Is(dec.Decode(&yaml.Node{}), io.EOF): // A --- at the end.
	case err == nil:
		return nil, []origin.Finding{origin.Errorf(t.Pos(&extra), "multi-document", "a second YAML document begins "+
			"here, and only the first would count; put each document in a file of its own")}
	case !errors.Is(err, io.EOF):
		return nil, []origin.Finding{t.syntax(err)}
	}
	root := doc.Content[0]
	nodes := maxNodes
	if fs := t.checkStrict(root, 0, &nodes); len(fs) > 0 {
		return nil, firstAlias(fs)
	}
	if nodes < 0 {
		return nil, []origin.Finding{origin.Errorf(whole, "too-large", "the document has more than %d values; keep "+
			"large contents in a file of their own and name it with `local:`", maxNodes)}
	}
	if root.Tag == "!!null" {
		return nil, []origin.Finding{origin.Errorf(whole, "empty-document", "the document is empty; write it or "+
			"remove it")}
	}
	return root, nil
}

// isNothing reports whether a YAML document is empty.
func isNothing(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].Tag == "!!null" &&
		doc.Content[0].Value == ""
}

// escapes matches the escape sequences of JSON: pairs of surrogates, and all other sequences.
var escapes = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\.`)

// yaml returns the text as YAML. JSON is YAML, except for tabs before the first brace and two escapes. yaml does not
// change the number of a line.
func (t YAMLText) yaml() []byte {
	if path.Ext(t.File) != IgnitionExt || t.Inline {
		return t.Src
	}
	src := t.Src
	if i := bytes.IndexAny(src, "{["); i > 0 && len(bytes.TrimSpace(src[:i])) == 0 {
		src = slices.Concat(bytes.ReplaceAll(src[:i], []byte("\t"), []byte(" ")), src[i:])
	}
	if !bytes.Contains(src, []byte(`\/`)) && !bytes.Contains(src, []byte(`\ud`)) &&
		!bytes.Contains(src, []byte(`\uD`)) {
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

// firstAlias removes all but the first alias finding, because a hostile document has thousands.
func firstAlias(fs []origin.Finding) []origin.Finding {
	found := false
	return slices.DeleteFunc(fs, func(f origin.Finding) bool {
		again := f.Rule == "alias" && found
		found = found || f.Rule == "alias"
		return again
	})
}

// checkStrict finds aliases, merge keys, repeated keys and too deep nesting, and counts down the allowed number of
// nodes. checkStrict removes comments, because kustomize reads some of them as rules for merging.
func (t YAMLText) checkStrict(n *yaml.Node, depth int, left *int) []origin.Finding {
	*left--
	n.HeadComment, n.LineComment, n.FootComment, n.Anchor = "", "", "", ""
	// A folded text gets another style, because the encoder may change the content of folded text.
	if n.Style&yaml.FoldedStyle != 0 {
		n.Style = n.Style&^yaml.FoldedStyle | yaml.LiteralStyle
	}
	if depth > maxDepth {
		return []origin.Finding{origin.Errorf(t.Pos(n), "too-deep", "nested more than %d levels deep", maxDepth)}
	}
	var out []origin.Finding
	switch n.Kind {
	case yaml.AliasNode:
		return []origin.Finding{origin.Errorf(t.Pos(n), "alias", "YAML alias *%s: aliases are not followed, as a few "+
			"of them can unfold into gigabytes; write the value out", n.Value)}
	case yaml.MappingNode:
		seen := make(map[string]*yaml.Node, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			k := n.Content[i]
			k.HeadComment, k.LineComment, k.FootComment, k.Anchor = "", "", "", ""
			switch first, twice := seen[k.Value]; {
			case k.Kind != yaml.ScalarNode:
				out = append(out, origin.Errorf(t.Pos(k), "yaml", "a key must be a plain word"))
			case k.Tag == "!!merge":
				out = append(out, origin.Errorf(t.Pos(k), "alias", "YAML merge key <<: aliases are not followed; "+
					"write the values out"))
				continue
			case slices.Contains(reserved, k.Value):
				out = append(out, origin.Errorf(t.Pos(k), "yaml", "the key %q is reserved; choose another", k.Value))
			case twice:
				out = append(out, origin.Errorf(t.Pos(k), "duplicate-key", "key %q occurs twice, first in line %d; "+
					"keep one", k.Value, first.Line+t.Offset))
			}
			seen[k.Value] = k
			out = append(out, t.checkStrict(n.Content[i+1], depth+1, left)...)
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			out = append(out, t.checkStrict(c, depth+1, left)...)
		}
	}
	return out
}

// Field returns the key and value of a mapping's entry, or nils.
func Field(n *yaml.Node, key string) (k, v *yaml.Node) {
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

// Scalar returns the scalar below a chain of keys, or "".
func Scalar(n *yaml.Node, keys ...string) string {
	for _, k := range keys {
		_, n = Field(n, k)
	}
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// Str returns a scalar node with a text.
func Str(v string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v} }

// Mapping returns a mapping node. In its argument, keys and values alternate.
func Mapping(kv ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: kv}
}

// Set replaces or adds an entry of a mapping.
func Set(n *yaml.Node, key string, v *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = v
			return
		}
	}
	n.Content = append(n.Content, Str(key), v)
}

// Encode writes a tree as YAML.
func Encode(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return b.Bytes(), nil
}

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
