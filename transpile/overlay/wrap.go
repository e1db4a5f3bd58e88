package overlay

import (
	"fmt"
	"hash/fnv"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	// marker is a hidden entry of every mapping: {key: place of its last writer}. As kustomize merges maps key by key,
	// the marker that survives names the layer that had the last word.
	marker = "__bunsen_origin"
	// fileAnnotation tells which file a resource was read from.
	fileAnnotation = "bunsen.dev/document"
)

// Extensions of files that hold one plain Butane document.
var extensions = []string{".bu", ".butane", ".fcc"}

// IsButane tells whether a file is read as a plain Butane document, by its name.
func IsButane(file string) bool {
	ext := path.Ext(file)
	for _, e := range extensions {
		if ext == e {
			return true
		}
	}
	return false
}

// wrap makes a plain Butane document, or part of one, an object that kustomize can handle.
func wrap(name, file string, root *yaml.Node) *yaml.Node {
	meta := mapping(str("name"), str(name))
	if file != "" {
		set(meta, "annotations", mapping(str(fileAnnotation), str(file)))
	}
	return mapping(str("apiVersion"), str(group+"/"+version), str("kind"), str(butaneKind), str("metadata"), meta, str("spec"), root)
}

// mark adds the markers below n and remembers where plain list items stand, as kustomize gives them no room.
func (b *builder) mark(t text, n *yaml.Node, under string) {
	switch n.Kind {
	case yaml.MappingNode:
		places := mapping()
		for i := 0; i < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			if strings.HasPrefix(k.Value, "$") { // a directive to kustomize, such as $patch
				continue
			}
			b.mark(t, v, k.Value)
			p := t.pos(k)
			place := fmt.Sprintf("%d:%d:%s:%s", p.Line, p.Column, fingerprint(v), p.File)
			places.Content = append(places.Content, str(k.Value), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: place})
		}
		if len(places.Content) > 0 {
			n.Content = append(n.Content, str(marker), places)
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			if c.Kind == yaml.ScalarNode {
				b.items[item{under, c.Value}] = t.pos(c)
			}
			b.mark(t, c, under)
		}
	}
}

// item is one entry of a list of plain strings.
type item struct{ list, value string }

// fingerprint tells whether a scalar is still the one that was marked, whatever its notation.
func fingerprint(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return "-"
	}
	v := n.Value
	switch n.Tag {
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			v = strconv.FormatInt(i, 10)
		}
	case "!!bool":
		v = strings.ToLower(v)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(v))
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}

func parsePlace(s string) (p origin.Pos, print string) {
	parts := strings.SplitN(s, ":", 4)
	if len(parts) != 4 {
		return origin.Pos{}, ""
	}
	p.File = parts[3]
	p.Line, _ = strconv.Atoi(parts[0])
	p.Column, _ = strconv.Atoi(parts[1])
	return p, parts[2]
}

// quote keeps the text of every scalar that is not meant as a number or boolean through the conversions to JSON that
// some patches cause.
func quote(n *yaml.Node, key string) {
	switch n.Kind {
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!int", "!!float", "!!bool", "!!timestamp":
			if !verbatim[key] {
				n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
			}
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			quote(n.Content[i+1], n.Content[i].Value)
		}
	case yaml.SequenceNode:
		if key == "should_exist" { // of kernel_arguments: text; of users and groups it is no list
			key = ""
		}
		for _, c := range n.Content {
			quote(c, key)
		}
	}
}

// localize makes every reference to a file relative to the repository's root, so that a base and an overlay each mean
// a file beside themselves.
func (t text) localize(n *yaml.Node) []origin.Finding {
	var out []origin.Finding
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			switch {
			case (k.Value == "local" || k.Value == "contents_local") && v.Kind == yaml.ScalarNode:
				out = append(out, t.localizeOne(v)...)
			case k.Value == "ssh_authorized_keys_local" && v.Kind == yaml.SequenceNode:
				for _, c := range v.Content {
					out = append(out, t.localizeOne(c)...)
				}
			default:
				out = append(out, t.localize(v)...)
			}
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			out = append(out, t.localize(c)...)
		}
	}
	return out
}

func (t text) localizeOne(v *yaml.Node) []origin.Finding {
	if v.Tag == "!!null" { // a patch that removes the entry
		return nil
	}
	full := path.Join(path.Dir(t.file), v.Value)
	if v.Value == "" || path.IsAbs(v.Value) || full == ".." || strings.HasPrefix(full, "../") || strings.ContainsAny(v.Value, "\\\x00\n") {
		return []origin.Finding{fatal(t.pos(v), "local-path", "%q is not a file of this repository; name it relative to this document's directory", v.Value)}
	}
	v.Value = full
	return nil
}
