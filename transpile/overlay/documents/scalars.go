package documents

import (
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// canonical returns a scalar's value in a form that does not depend on its notation.
func canonical(n *yaml.Node) string {
	switch n.Tag {
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return strconv.FormatInt(i, 10)
		}
	case "!!bool":
		return strings.ToLower(n.Value)
	}
	return n.Value
}

// tabMark is a character that is in no text of a document, because it is for private use.
const tabMark = "\ue0b0"

// MarkTabs puts a mark before each text that begins with a tab. kustomize writes such a text of several lines as a
// block for its operations, in a form that its own reader refuses.
func MarkTabs(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Value, "\t") {
		n.Value = tabMark + n.Value
	}
	for _, c := range n.Content {
		MarkTabs(c)
	}
}

// UnmarkTabs removes the marks of MarkTabs.
func UnmarkTabs(n *yaml.Node) {
	if value, marked := strings.CutPrefix(n.Value, tabMark+"\t"); marked && n.Kind == yaml.ScalarNode {
		n.Value, n.Style = "\t"+value, yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		UnmarkTabs(c)
	}
}

// oldBooleans are the booleans of YAML 1.1, which are texts in YAML 1.2 and for Butane. JSON patches read YAML 1.1.
var oldBooleans = setOf("y n yes no on off")

// QuoteScalars quotes every scalar that Butane does not read as a number or boolean, because JSON patches would change
// its text. QuoteScalars reports whether it changed any scalar.
func QuoteScalars(n *yaml.Node, key string) (changed bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!int", "!!float", "!!bool", "!!timestamp":
			if !typedKeys[key] {
				n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
				return true
			}
		case "!!str":
			if !typedKeys[key] && oldBooleans[strings.ToLower(n.Value)] {
				n.Style = yaml.DoubleQuotedStyle
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			changed = QuoteScalars(n.Content[i+1], n.Content[i].Value) || changed
		}
	case yaml.SequenceNode:
		// should_exist is a list of texts in kernel_arguments, but a boolean in users and groups.
		if key == "should_exist" {
			key = ""
		}
		for _, c := range n.Content {
			changed = QuoteScalars(c, key) || changed
		}
	}
	return changed
}

// IsLocal reports whether a key of a Butane document names a file of the repository.
func IsLocal(key string) bool { return key == "local" || key == "contents_local" }

// AreLocal reports whether a key of a Butane document names a list of files of the repository.
func AreLocal(key string) bool { return key == "ssh_authorized_keys_local" }

// ResolveLocals makes every reference to a local file relative to the repository's root. Documents and patches name
// files relative to their own directory.
func ResolveLocals(t YAMLText, n *yaml.Node) []origin.Finding {
	l := localPaths{YAMLText: t}
	return l.walk(n)
}

// ResolveLocal makes one reference to a local file relative to the repository's root.
func ResolveLocal(t YAMLText, v *yaml.Node) []origin.Finding {
	l := localPaths{YAMLText: t}
	return l.resolve(v)
}

// localPaths resolves references to local files, and records whether it has changed any reference.
type localPaths struct {
	YAMLText
	changed bool
}

func (t *localPaths) walk(n *yaml.Node) []origin.Finding {
	var out []origin.Finding
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			switch {
			case IsLocal(k.Value) && v.Kind == yaml.ScalarNode:
				out = append(out, t.resolve(v)...)
			case AreLocal(k.Value) && v.Kind == yaml.SequenceNode:
				for _, c := range v.Content {
					if c.Kind == yaml.ScalarNode {
						out = append(out, t.resolve(c)...)
					}
				}
			default:
				out = append(out, t.walk(v)...)
			}
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			out = append(out, t.walk(c)...)
		}
	}
	return out
}

// resolve makes one reference relative to the repository's root.
func (t *localPaths) resolve(v *yaml.Node) []origin.Finding {
	if v.Tag == "!!null" { // A null in a patch is no path: it removes the entry.
		return nil
	}
	full := path.Join(path.Dir(t.File), v.Value)
	if v.Value == "" || path.IsAbs(v.Value) || full == ".." || strings.HasPrefix(full, "../") ||
		strings.ContainsAny(v.Value, "\\\x00\n") {
		return []origin.Finding{origin.Errorf(t.Pos(v), "local-path", "%q is not a file of this repository; name it "+
			"relative to this document's directory", v.Value)}
	}
	t.changed = t.changed || v.Value != full
	v.Value = full
	return nil
}
