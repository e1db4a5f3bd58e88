package adopt

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/safetext"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// String returns a YAML scalar with a text, in quotes if a YAML reader could parse it as another type.
func String(text string) *yaml.Node {
	n := Key(text)
	if words[strings.ToLower(text)] || strings.ContainsFunc(text, safetext.IsHidden) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// Block returns a text as a block scalar, which users can read and diff; false if a YAML reader might not return the
// same bytes, or if a user could not see a difference.
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

// addChecked imports an object of the cluster with its whole spec, or sets it aside with the error of its check.
func (a *adoption) addChecked(i int, prefix string, err error) {
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	spec, _ := a.objects[i].content["spec"].(map[string]any)
	a.addClusterObject(i, a.freePath(clusterDir, prefix+a.objects[i].name, ".yaml"), spec)
}

func (a *adoption) addClusterObject(i int, file string, spec map[string]any) {
	o := a.objects[i]
	meta := map[string]any{"name": o.name}
	old, _ := o.content["metadata"].(map[string]any)
	for _, k := range []string{"labels", "annotations"} {
		if set, _ := old[k].(map[string]any); len(set) > 0 {
			if kept := userMetadata(set); len(kept) > 0 {
				meta[k] = kept
			}
		}
	}
	root := Mapping(Key("apiVersion"), Key(o.apiVersion), Key("kind"), Key(o.kind),
		Key("metadata"), Verbatim(meta), Key("spec"), Verbatim(spec))
	body, err := Encode(root)
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	a.out.Files[file] = bytes.Join(
		[][]byte{Comment("Imported from the cluster, without what the cluster itself writes."), body}, nil)
	a.out.Objects[i].Files = []string{file}
}

// userMetadata leaves out the labels or annotations that tools write.
func userMetadata(set map[string]any) map[string]any {
	out := maps.Clone(set)
	maps.DeleteFunc(out, func(k string, _ any) bool {
		return strings.HasPrefix(k, "kubectl.kubernetes.io/") || strings.HasPrefix(k, "bunsen.dev/")
	})
	return out
}

func without(v map[string]any, keys ...string) map[string]any {
	out := maps.Clone(v)
	maps.DeleteFunc(out, func(k string, _ any) bool { return slices.Contains(keys, k) })
	return out
}

// strictly decodes an object into its type. Unknown fields are an error, because the API server would refuse the
// object.
func strictly(o object, into any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.content, into, true)
	if err != nil {
		return fmt.Errorf("it is not a %s as this version knows it: %w", o.kind, err)
	}
	return nil
}

// checkSelector refuses a selector that selects nothing: a missing or an empty one.
func checkSelector(name string, s *metav1.LabelSelector) error {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return fmt.Errorf("spec.%s selects nothing; name labels", name)
	}
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		return fmt.Errorf("spec.%s: %w", name, err)
	}
	return nil
}
