package lsp

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/internal/schema"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// code returns a text of the repository as code in Markdown, in which nothing is markup.
func code(text string) string {
	return "`" + strings.ReplaceAll(safetext.Short(safetext.OneLine(text), 200), "`", "'") + "`"
}

// hoverAt says what stands at a position: its documentation, what a change of it does to nodes, and who sets it.
func (s *snapshot) hoverAt(d document, at position) (string, bool) {
	whole := d
	p, d, ok := placeIn(d, at)
	if !ok {
		return "", false
	}
	var parts []string
	if name := factAt(whole, at); name != "" {
		parts = append(parts, s.factText(whole.file, name))
	}
	if text := s.fieldText(d, p); text != "" {
		parts = append(parts, text)
	}
	it, isItem := p.item()
	switch {
	case isItem && s != nil:
		parts = append(parts, s.itemText(it))
	case len(p.path) <= 1 && s != nil:
		if text := s.documentText(d); text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return "", false
	}
	return strings.Join(parts, "\n\n---\n\n"), true
}

// fieldText is the documentation of the nearest key.
func (s *snapshot) fieldText(d document, p place) string {
	root := s.schemaOf(d, p)
	keys := p.schemaPath()
	for len(keys) > 0 && keys[len(keys)-1] == "-" {
		keys = keys[:len(keys)-1]
	}
	n := root.At(keys)
	if n == nil || len(keys) == 0 || n.Description == "" {
		return ""
	}
	kind := strings.Join(n.Type, " or ")
	if kind != "" {
		kind = " (" + kind + ")"
	}
	where := root.Title
	if where != "" {
		where = "\n\n*" + where + "*"
	}
	return fmt.Sprintf("**%s**%s: %s%s", strings.ReplaceAll(strings.Join(keys, "."), ".-", ""), kind, n.Description,
		where)
}

// itemText says what a change of an item does, and who sets it.
func (s *snapshot) itemText(it item) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", lineage.Name{Kind: it.kind}.Noun(), code(it.name))
	all := s.settersOf(it)
	if len(all) == 0 {
		if it.kind == disruption.KindStorage {
			return b.String() + ": " + disruption.EffectNewNodes
		}
		return b.String() + ": no rendered pool has it yet"
	}
	for _, of := range all {
		fmt.Fprintf(&b, "\n\nA change of it in %s: **%s**", poolsText(of.pools), of.effect)
		if of.why != "" {
			fmt.Fprintf(&b, " (%s)", code(of.why))
		}
		b.WriteString("\n")
		writeSetters(&b, of.item)
	}
	return b.String()
}

// writeSetters lists the lines that set the attributes of an item, with the values that they replace, and the documents
// that these lines are patches of.
func writeSetters(b *strings.Builder, of lineage.Item) {
	shown := map[string]bool{}
	for i, a := range of.Attributes {
		if i == maxAttributes {
			fmt.Fprintf(b, "\n- and %d more", len(of.Attributes)-i)
			break
		}
		fmt.Fprintf(b, "\n- %s: %s", code(a.Name), code(writerText(a.Writer)))
		shown[a.At.File] = true
		for _, w := range slices.Backward(a.Replaced) {
			fmt.Fprintf(b, ", in place of %s", code(writerText(w)))
			shown[w.At.File] = true
		}
	}
	for _, w := range of.Writers {
		if text := writerText(w); !shown[w.At.File] {
			fmt.Fprintf(b, "\n- set by %s", code(text))
		}
		if w.Source != "" && !shown[w.Source] && w.Source != w.At.File {
			fmt.Fprintf(b, "\n- the document is %s", code(w.Source))
		}
		shown[w.At.File], shown[w.Source] = true, true
	}
}

// maxAttributes is how many attributes of an item a hover lists.
const maxAttributes = 12

func writerText(w lineage.Writer) string {
	if at := w.At.String(); at != "" {
		return at
	}
	return "MachineConfig " + w.Layer
}

// documentText says what becomes of a whole file.
func (s *snapshot) documentText(d document) string {
	fragments := s.fragmentsOf(d.file)
	if len(fragments) == 0 {
		return s.clusterText(d)
	}
	var b strings.Builder
	byName := map[string][]string{}
	var order []string
	for _, f := range fragments {
		if byName[f.Name] == nil {
			order = append(order, f.Name)
		}
		if pool := code(f.Pool); !slices.Contains(byName[f.Name], pool) {
			byName[f.Name] = append(byName[f.Name], pool)
		}
	}
	for _, name := range order {
		fmt.Fprintf(&b, "MachineConfig %s of %s\n\n", code(name), poolsText(byName[name]))
	}
	declaring, patching := s.related(d.file)
	for _, f := range declaring {
		fmt.Fprintf(&b, "- it patches %s\n", code(f))
	}
	for _, f := range patching {
		fmt.Fprintf(&b, "- %s patches the same document\n", code(f))
	}
	return strings.TrimSpace(b.String())
}

// clusterText says which pools an object of cluster/ is about, or a kustomization builds.
func (s *snapshot) clusterText(d document) string {
	if !isKustomization(d.file) {
		return ""
	}
	var pools []string
	for _, pool := range s.pools() {
		if slices.Contains(s.side.Reads[pool], d.file) {
			pools = append(pools, code(pool))
		}
	}
	if len(pools) == 0 {
		return code(path.Dir(d.file)) + ": no pool is built from it"
	}
	return fmt.Sprintf("%s belongs to %s", code(path.Dir(d.file)), poolsText(pools))
}

// schemaOf returns the schema of a document: that of its own keys, or for a patch that of the document that it changes.
func (s *snapshot) schemaOf(d document, p place) *schema.Node {
	if isKustomization(d.file) && !d.patch {
		n, err := schema.Get("kustomization")
		if err != nil {
			return nil
		}
		return n
	}
	if variant := documents.Scalar(p.root, "variant"); variant != "" {
		return dialect(variant, documents.Scalar(p.root, "version"))
	}
	if kind := documents.Scalar(p.root, "kind"); kind != "" {
		return schema.OfKind(documents.Scalar(p.root, "apiVersion"), kind)
	}
	declaring, _ := s.related(d.file)
	for _, file := range declaring {
		if root := s.root(file); root != nil {
			if variant := documents.Scalar(root, "variant"); variant != "" {
				return dialect(variant, documents.Scalar(root, "version"))
			}
			return schema.OfKind(documents.Scalar(root, "apiVersion"), documents.Scalar(root, "kind"))
		}
	}
	if documents.IsButane(d.file) || d.patch {
		return dialect("fcos", "")
	}
	return nil
}

// dialect returns the schema of a variant; of its newest version if the version is not known.
func dialect(variant, version string) *schema.Node {
	if n := schema.OfDialect(variant, version); n != nil {
		return n
	}
	if all := schema.Versions(variant); len(all) > 0 {
		return schema.OfDialect(variant, all[len(all)-1])
	}
	return nil
}
