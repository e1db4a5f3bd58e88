package overlay

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// body is what a patch says. It does not change and may be remembered; whoever applies it copies.
type body struct {
	about    about
	findings []origin.Finding
	// object is part of a document, marked; nil where the patch is a list of operations.
	object     *yaml.Node
	operations []operation
	// name of the document that it patches, where it has no target.
	name string
	// deletes: the whole document goes.
	deletes   bool
	deletions []deletion
	at        origin.Pos
	// file that holds it.
	file string
	size int
	key  string
}

// deletion is an item that a patch deletes by its name.
type deletion struct {
	entry entry
	at    origin.Pos
}

// usage is what a kustomization says of a patch, beside its text.
type usage struct {
	kind     Kind // of the target; empty where it names none
	targeted bool
}

// patcher reads the patches of a kustomization.
type patcher struct{ *reader }

// patches reads the list of patches.
func (r patcher) patches(list *yaml.Node) {
	for _, entry := range list.Content {
		if entry.Kind != yaml.MappingNode {
			r.add(fatal(r.text.pos(entry), "kustomization", "a patch is {path or patch, target}"))
			continue
		}
		r.patch(entry)
	}
}

func (r patcher) patch(entry *yaml.Node) {
	if r.unknownKey(r.text, entry, "a patch", "path", "patch", "target", "options") || !r.patchOptions(entry) {
		return
	}
	t, key, ok := r.patchText(entry)
	if !ok {
		return
	}
	_, target := field(entry, "target")
	u := usage{Kind(scalarAt(target, "kind")), target != nil}
	key = keyOf(key, string(u.kind), map[bool]string{true: "target"}[u.targeted])
	p, known := r.bodies.get(key)
	if !known {
		p = u.read(t)
		p.key, p.size = key, len(t.src)
		r.bodies.put(key, p, 20*len(t.src)+500)
	}
	r.add(p.findings...)
	sel := &selector{about: p.about, byID: true, name: p.name, at: p.at, file: r.layer.file}
	if u.targeted {
		kind := p.about.kind
		if kind == "" { // the patch cannot be read, but its target can
			kind = Butane
		}
		if sel, ok = r.selectorOf(target, kind, r.text); !ok {
			return
		}
	}
	if origin.Fatal(p.findings) {
		return
	}
	switch {
	case u.targeted:
	case p.object == nil:
		r.add(fatal(r.text.pos(entry), "patch-target", "a JSON patch needs a target, such as target: {name: 10-chrony}"))
		return
	case t.inline && p.about.plain:
		r.add(fatal(r.text.pos(entry), "patch-target", "an inline patch of a Butane document needs a target, such as target: {name: 10-chrony}"))
		return
	}
	s := &step{key: keyOf("patch", p.key, sel.key()), at: p.at, selector: sel, change: mergePatch{p}}
	if p.object == nil {
		s.change = jsonPatch{p}
	}
	r.step(s)
}

// patchOptions refuses what would change what a document is: targets mean documents by name and kind.
func (r patcher) patchOptions(entry *yaml.Node) bool {
	_, options := field(entry, "options")
	if options == nil {
		return true
	}
	for i := 0; i+1 < len(options.Content); i += 2 {
		if k, v := options.Content[i], options.Content[i+1]; v.Value != "false" {
			r.add(fatal(r.text.pos(k), "kustomization-field", "the option %s is not supported here: a document is known by its name and kind; use namePrefix or nameSuffix, or name its file otherwise", k.Value))
			return false
		}
	}
	return true
}

// patchText returns the patch's text, from its file or from the kustomization itself, with a digest of it and its place.
func (r patcher) patchText(entry *yaml.Node) (text, string, bool) {
	_, file := field(entry, "path")
	_, inline := field(entry, "patch")
	switch {
	case (file == nil) == (inline == nil):
		r.add(fatal(r.text.pos(entry), "kustomization", "a patch has either a path or a patch"))
		return text{}, "", false
	case inline != nil && inline.Kind != yaml.ScalarNode:
		r.add(fatal(r.text.pos(inline), "kustomization", "a patch is text: write patch: |- and the patch below it"))
		return text{}, "", false
	case inline != nil:
		offset := inline.Line - 1
		if inline.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			offset = inline.Line
		}
		t := text{file: r.text.file, src: []byte(inline.Value), offset: offset, inline: true}
		return t, keyOf(r.here(), "inline", r.text.pos(inline).String()), true
	}
	full, ok := r.local(r.text, file)
	if !ok {
		return text{}, "", false
	}
	src, err := r.builder.read(full)
	if err != nil {
		r.add(unreadable(r.text.pos(file), full, file.Value, err))
		return text{}, "", false
	}
	return text{file: full, src: src}, keyOf(full, r.reads[full]), true
}

// read reads a patch's text.
func (u usage) read(t text) *body {
	p := &body{at: t.pos(&yaml.Node{Line: 1, Column: 1})}
	root, fs := t.parse()
	p.findings = fs
	if root == nil {
		return p
	}
	p.at = t.pos(root)
	if !u.kindOf(p, t, root) {
		return p
	}
	switch root.Kind {
	case yaml.SequenceNode:
		p.json(t, root)
	case yaml.MappingNode:
		p.merge(u, t, root)
	default:
		p.add(fatal(t.pos(root), "patch", "a patch is part of a document, or a list of JSON patch operations"))
	}
	return p
}

func (p *body) add(fs ...origin.Finding) { p.findings = append(p.findings, fs...) }

// kindOf finds out of which kind the document is that a patch changes.
func (u usage) kindOf(p *body, t text, root *yaml.Node) bool {
	kind, said := u.kind, scalarAt(root, "kind")
	a, known := kindOf(root)
	switch {
	case said != "" && !known:
		p.add(fatal(t.pos(root), "patch", "a patch is part of a Butane document, or of an object of kind %s, with its apiVersion and kind", objectKinds()))
		return false
	case said != "" && (kind == "" || kind == a.kind):
		kind = a.kind
	case said != "":
		p.add(fatal(t.pos(root), "patch", "the patch is of a %s and its target of kind %s", said, kind))
		return false
	case kind == "" && t.file != "" && !t.inline && strings.HasSuffix(t.file, ignitionExt):
		kind = Ignition
	case kind == "":
		kind = Butane
	}
	p.about, known = kind.about()
	if !known {
		return true // the target is refused
	}
	if !p.about.plain && said == "" && root.Kind == yaml.MappingNode {
		p.add(fatal(t.pos(root), "patch", "a patch of a %s is part of one: begin it with apiVersion: %s/%s, kind: %[1]s and metadata, and put the rest below%[4]s",
			kind, p.about.group, p.about.version, map[bool]string{true: " " + p.about.under, false: " them"}[p.about.under != ""]))
		return false
	}
	return true
}

// merge prepares part of a document.
func (p *body) merge(u usage, t text, root *yaml.Node) {
	p.name = stem(t.file)
	content := root
	if !p.about.plain {
		if content = p.about.content(root); content != nil && content.Kind != yaml.MappingNode {
			p.add(fatal(t.pos(content), "shape", "%s is a mapping of fields, not a list or a single value", p.about.under))
			return
		}
		if name := scalarAt(root, "metadata", "name"); name != "" {
			p.name = name
		} else if t.inline && !u.targeted {
			p.add(fatal(t.pos(root), "patch-target", "the patch has no metadata.name and no target, so it is of no document; give it one of the two"))
		}
	}
	p.add(t.checkDirectives(root)...)
	if content != nil {
		p.add(t.checkShapes(content, p.about.lists)...)
		p.add(t.checkLists(content, p.about.lists, true)...)
	}
	if p.about.kind == Butane {
		p.add(t.localize(root)...)
		quote(root, "")
	}
	if origin.Fatal(p.findings) {
		return
	}
	p.findDeletions(t, content)
	_, directive := field(root, "$patch")
	p.deletes = directive != nil && directive.Value == "delete"
	t.settle(root)
	p.object, p.file = root, t.file
	if p.about.plain {
		p.object = p.about.wrap("patch", root)
		if p.deletes { // the document itself goes, not only what it says
			set(p.object, "$patch", directive)
		}
	}
}

// findDeletions lists the items that the patch deletes by name.
func (p *body) findDeletions(t text, content *yaml.Node) {
	if content == nil {
		return
	}
	for e, item := range entries(content, p.about.lists) {
		if _, directive := field(item, "$patch"); directive != nil && directive.Value == "delete" {
			p.deletions = append(p.deletions, deletion{e, t.pos(item)})
		}
	}
}

// meant tells whether the patch deletes an entry by its name.
func (p *body) meant(e entry) bool {
	return slices.ContainsFunc(p.deletions, func(d deletion) bool { return d.entry == e })
}
