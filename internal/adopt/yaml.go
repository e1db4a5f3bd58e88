package adopt

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// Verbatim writes JSON values with their own keys. Numbers have the types of encoding/json or of Kubernetes.
func Verbatim(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		n := Mapping()
		for _, k := range keysOf(v) {
			n.Content = append(n.Content, Key(k), Verbatim(v[k]))
		}
		return n
	case []any:
		n := Sequence()
		for _, item := range v {
			n.Content = append(n.Content, Verbatim(item))
		}
		return n
	case string:
		if n, ok := Block(v); ok && strings.Contains(v, "\n") {
			return n
		}
		return String(v)
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}
	}
}

// words are texts that some YAML readers parse as another type.
var words = map[string]bool{
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "<<": true,
	"=": true, "~": true, "null": true,
}

// Mapping returns a YAML mapping. In its arguments, keys and values alternate.
func Mapping(kv ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: kv}
}

// Sequence returns a YAML list.
func Sequence(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// Key returns a YAML scalar without quotes, for a key.
func Key(word string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word} }

// String returns a YAML scalar with a text. The text is quoted if a YAML reader could parse it as another type.
func String(text string) *yaml.Node {
	n := Key(text)
	if words[strings.ToLower(text)] || strings.ContainsFunc(text, safetext.IsHidden) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// octal returns a YAML scalar with a file mode in octal digits.
func octal(mode int64) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprintf("%04o", mode)}
}

// Block returns a text as a block scalar, which users can read and diff. ok is false if a YAML reader might not return
// the same bytes, or if a user could not see a difference.
func Block(text string) (n *yaml.Node, ok bool) {
	body := strings.TrimSuffix(text, "\n")
	if body == "" || strings.HasSuffix(body, "\n") || strings.ContainsAny(body[:1], " \t\n") || !visible(text) {
		return nil, false
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasSuffix(line, " ") || strings.HasSuffix(line, "\t") {
			return nil, false
		}
	}
	n = String(text)
	n.Style = yaml.LiteralStyle
	return n, true
}

// visible reports whether YAML writes the text without escapes: printable characters, line breaks and tabs.
func visible(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && (safetext.IsHidden(r) || r == unicode.ReplacementChar ||
			!unicode.IsGraphic(r) || r > 0xffff)
	})
}

// short reports whether a text fits best on one line: a value without a line break.
func short(text string) bool {
	return len(text) <= 200 && utf8.ValidString(text) && !strings.Contains(text, "\n") && (text == "" || visible(text))
}

// Encode returns the bytes of a document.
func Encode(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return b.Bytes(), nil
}

// Comment returns lines as the comment at the top of a file.
func Comment(lines ...string) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString("# " + safetext.OneLine(l) + "\n")
	}
	return b.Bytes()
}

// Field returns the value of a mapping's entry, or nil.
func Field(n *yaml.Node, key string) *yaml.Node {
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

// ScalarText returns a mapping's scalar, or "".
func ScalarText(n *yaml.Node, key string) string {
	v := Field(n, key)
	if v == nil || v.Kind != yaml.ScalarNode || v.ShortTag() == "!!null" {
		return ""
	}
	return v.Value
}
