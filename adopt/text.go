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

// words are texts that some reader of YAML takes for something else.
var words = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "<<": true, "=": true, "~": true, "null": true}

func mapping(kv ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: kv}
}

func sequence(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// key is a plain word.
func key(word string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word} }

// str is a text, in quotes where a reader could take it for something else.
func str(text string) *yaml.Node {
	n := key(text)
	if words[strings.ToLower(text)] || strings.ContainsFunc(text, safetext.IsHidden) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// octal is a mode as people write it.
func octal(mode int64) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprintf("%04o", mode)}
}

// block is text as a block scalar, which people can read and diff. ok is false for text that a block scalar does not
// bring back byte for byte through every reader on its way, or not so that one could see it.
func block(text string) (n *yaml.Node, ok bool) {
	body := strings.TrimSuffix(text, "\n")
	if body == "" || strings.HasSuffix(body, "\n") || strings.ContainsAny(body[:1], " \t\n") || !visible(text) {
		return nil, false
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasSuffix(line, " ") || strings.HasSuffix(line, "\t") {
			return nil, false
		}
	}
	n = str(text)
	n.Style = yaml.LiteralStyle
	return n, true
}

// visible tells whether text is what YAML writes as it is: printable, line breaks and tabs.
func visible(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && (safetext.IsHidden(r) || r == unicode.ReplacementChar || !unicode.IsGraphic(r) || r > 0xffff)
	})
}

// short tells of text that is best seen in one line: a value without a line break.
func short(text string) bool {
	return len(text) <= 200 && utf8.ValidString(text) && !strings.Contains(text, "\n") && (text == "" || visible(text))
}

// encode writes a document.
func encode(n *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return b.Bytes(), nil
}

// comment puts lines into the head of a file.
func comment(lines ...string) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString("# " + safetext.OneLine(l) + "\n")
	}
	return b.Bytes()
}
