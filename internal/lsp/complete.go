package lsp

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/schema"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

var (
	openFact = regexp.MustCompile(`\$\{[a-z.:A-Za-z0-9_/-]*$`)
	keyValue = regexp.MustCompile(`^(\s*(?:- +)*)("?[A-Za-z_][A-Za-z0-9_./-]*"?):[ \t]+("?[^"#]*)$`)
	keyOnly  = regexp.MustCompile(`^(\s*(?:- +)*)("?[^\s"':#{}\[\]]*)$`)
)

// marker stands for the word at the cursor while its place is searched.
const marker = "__bunsen__"

// completion is what an editor offers at a position.
type completion struct {
	label, insert, detail, about string
	kind                         int
}

// completeAt returns what can stand at a position, and the range that it replaces.
func (s *snapshot) completeAt(d document, at position) ([]completion, span) {
	text := d.line(at.Line)
	offset := d.offset(at.Line, at.Character)
	before, after := text[:offset], text[offset:]
	if i := strings.IndexAny(after, " \t:,}"); i >= 0 {
		after = after[:i]
	}
	if from := openFact.FindStringIndex(before); from != nil {
		to := offset + len(after)
		if strings.HasPrefix(text[to:], "}") {
			to++
		}
		return s.facts(d.file), d.span(at.Line, from[0], to)
	}
	if m := keyValue.FindStringSubmatchIndex(before); m != nil {
		from := m[6]
		if p, ok := marked(d, at.Line, before[:from]+marker); ok {
			return s.values(d, p), d.span(at.Line, from, max(offset, from+valueLength(text[from:])))
		}
		return nil, span{}
	}
	m := keyOnly.FindStringSubmatchIndex(before)
	if m == nil {
		return nil, span{}
	}
	to := offset + len(after)
	where := d.span(at.Line, m[4], to)
	// An item of a list can be a value, or begin with a key.
	if strings.Contains(before[:m[3]], "-") {
		if p, ok := marked(d, at.Line, before[:m[3]]+marker); ok {
			if n := s.schemaOf(d, p).At(p.path); n != nil && !slices.Contains(n.Type, "object") {
				return s.values(d, p), where
			}
		}
	}
	p, ok := marked(d, at.Line, before[:m[3]]+marker+": 1")
	if !ok {
		return nil, span{}
	}
	return s.keys(d, p, strings.HasPrefix(text[to:], ":")), where
}

// valueLength returns the length of the value at the beginning of a text, without the comment behind it.
func valueLength(text string) int {
	if n := quotedLength(text); n > 0 {
		return n
	}
	if strings.HasPrefix(text, "#") {
		return 0
	}
	for _, comment := range []string{" #", "\t#"} {
		text, _, _ = strings.Cut(text, comment)
	}
	return len(strings.TrimRight(text, " \t"))
}

// marked returns the place of the marker, with another text of its line. Its path has "-" for items of lists.
func marked(d document, line int, text string) (place, bool) {
	if line < 0 || line >= len(d.lines) || len(d.text) > maxText {
		return place{}, false
	}
	head := append(append([]string(nil), d.lines[:line]...), text)
	for _, lines := range [][]string{append(head[:line+1:line+1], d.lines[line+1:]...), head} {
		roots, ok := parse(strings.Join(lines, "\n") + "\n")
		if !ok {
			continue
		}
		root := rootAt(roots, line+1)
		if root == nil {
			continue
		}
		if root.Kind == yaml.ScalarNode && root.Value == marker {
			return place{root: root, nodes: []*yaml.Node{root}}, true
		}
		if path, nodes := find(root, marker, nil); nodes != nil {
			return place{root: root, path: path, nodes: nodes}, true
		}
	}
	return place{}, false
}

// keys offers the keys that a mapping can have, without those that it has.
func (s *snapshot) keys(d document, p place, hasColon bool) (out []completion) {
	root := s.schemaOf(d, p)
	if root == nil && len(p.path) == 0 {
		root = &schema.Node{Properties: map[string]*schema.Node{
			"apiVersion": {Description: "Begins an object, such as a MachineConfigPool."},
			"kind":       {Description: "The kind of an object."},
			"variant":    {Description: "Begins a Butane document: the operating system."},
			"version":    {Description: "The version of the variant of a Butane document."},
		}}
	}
	n := root.At(p.path)
	if n == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(n.Properties)) {
		if k, _ := documents.Field(p.value(), key); k != nil {
			continue
		}
		of := n.Properties[key]
		insert := key
		switch {
		case hasColon:
		case slices.Contains(of.Type, "object"), slices.Contains(of.Type, "array"):
			insert += ":"
		default:
			insert += ": "
		}
		detail := strings.Join(of.Type, " or ")
		if slices.Contains(n.Required, key) {
			detail += ", required"
		}
		out = append(out, completion{
			label: key, insert: insert, detail: detail, about: of.Description, kind: itemField,
		})
	}
	return out
}

// values offers what the value of a key, or an item of a list, can be.
func (s *snapshot) values(d document, p place) (out []completion) {
	add := func(detail string, kind int, all ...string) {
		for _, v := range all {
			if v != "" && v != marker && !slices.ContainsFunc(out, func(c completion) bool { return c.label == v }) {
				out = append(out, completion{label: v, insert: v, detail: detail, kind: kind})
			}
		}
	}
	if len(p.path) == 0 {
		return nil
	}
	last, parent := p.path[len(p.path)-1], strings.Join(p.path[:len(p.path)-1], ".")
	switch {
	case len(p.path) == 1 && last == "variant":
		add("variant of Butane", itemValue, schema.Variants()...)
		return out
	case len(p.path) == 1 && last == "version" && !isKustomization(d.file):
		versions := schema.Versions(documents.Scalar(p.root, "variant"))
		slices.Reverse(versions)
		add("version of the variant", itemValue, versions...)
		return out
	case len(p.path) == 1 && (last == "kind" || last == "apiVersion") && !isKustomization(d.file):
		for _, k := range schema.Kinds() {
			if last == "kind" {
				if v := documents.Scalar(p.root, "apiVersion"); v == "" || v == k.APIVersion {
					add(k.APIVersion, itemValue, k.Name)
				}
			} else if name := documents.Scalar(p.root, "kind"); name == "" || name == k.Name {
				add("", itemValue, k.APIVersion)
			}
		}
		return out
	case isReference(d.file, p.path):
		add("file of the repository", itemFile, s.referable(d.file)...)
		return out
	case last == "name" && strings.HasSuffix(parent, "systemd.units.-"):
		add("unit of the repository", itemValue, s.itemNames(disruption.KindUnit)...)
	case last == "name" && strings.HasSuffix(parent, "passwd.users.-"):
		add("user of the repository", itemValue, s.itemNames(disruption.KindUser)...)
	case last == "path" && strings.HasPrefix(parent, "storage."):
		add("path of the repository", itemValue, s.itemNames(disruption.KindFile)...)
	case last == "name" && parent == "metadata" && documents.Scalar(p.root, "kind") == "MachineConfigPool",
		last == "machineconfiguration.openshift.io/role":
		if s != nil {
			add("pool", itemValue, s.result.Pools...)
		}
	case parent == "patches.-.target" && last == "kind":
		for _, k := range schema.Kinds() {
			add("kind of a document", itemValue, k.Name)
		}
		add("kind of a document", itemValue, "Butane")
	case parent == "patches.-.target" && last == "name":
		for _, f := range s.files(".") {
			if isYAML(f) && !isKustomization(f) {
				add(f, itemValue, documents.Stem(f))
			}
		}
	}
	n := s.schemaOf(d, p).At(p.path)
	if n == nil {
		return out
	}
	add("", itemValue, n.Const)
	for _, e := range n.Enum {
		if text, ok := e.(string); ok {
			add("", itemValue, text)
		}
	}
	if slices.Contains(n.Type, "boolean") {
		add("", itemValue, "true", "false")
	}
	return out
}

// itemNames lists the names of items that documents of any pool set.
func (s *snapshot) itemNames(kind disruption.ChangeKind) (out []string) {
	for _, name := range s.pools() {
		config := s.side.Pools[name].Config.Ignition
		switch kind {
		case disruption.KindUnit:
			for _, u := range config.Systemd.Units {
				out = append(out, u.Name)
			}
		case disruption.KindUser:
			for _, u := range config.Passwd.Users {
				out = append(out, u.Name)
			}
		case disruption.KindFile:
			for _, f := range config.Storage.Files {
				out = append(out, f.Path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// referable lists the files and directories that a file can name, relative to its directory.
func (s *snapshot) referable(file string) (out []string) {
	dir := path.Dir(file)
	for _, f := range s.files(".") {
		if f == file {
			continue
		}
		to := f
		if isKustomization(file) && isKustomization(f) {
			to = path.Dir(f)
		}
		if below, ok := strings.CutPrefix(to, dir+"/"); ok || dir == "." {
			if dir == "." {
				below = to
			}
			out = append(out, below)
		} else if isKustomization(file) && isKustomization(f) && to != dir {
			out = append(out, relative(dir, to))
		}
	}
	return out
}

// relative writes a path of the repository as seen from a directory of it.
func relative(from, to string) string {
	a, b := strings.Split(from, "/"), strings.Split(to, "/")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	return path.Join(strings.Repeat("../", len(a)), path.Join(b...))
}

// facts offers the facts of the pools whose nodes get a document.
func (s *snapshot) facts(file string) []completion {
	values := map[string]string{"name": "the name of the node"}
	for _, row := range s.tables(file) {
		for _, c := range row.Cells {
			if _, known := values[c.Fact]; !known {
				values[c.Fact] = "such as " + c.Value
			}
		}
	}
	var out []completion
	for _, fact := range slices.Sorted(maps.Keys(values)) {
		text := "${node." + fact + "}"
		out = append(out, completion{label: text, insert: text, detail: values[fact], kind: itemValue})
	}
	return out
}
