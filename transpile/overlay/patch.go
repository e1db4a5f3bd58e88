package overlay

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// Patch is the content of one patch.
type Patch struct {
	Info     documents.Info
	Findings []origin.Finding
	// Object is part of a document, with the positions of keys; nil if the patch is a list of operations.
	Object     *yaml.Node
	Operations []Operation
	// Name is the name of the document that the patch changes, if the patch has no target.
	Name string
	// Deletes is true if the patch deletes the whole document.
	Deletes   bool
	Deletions []Deletion
	At        origin.Pos
	File      string // File is the file that contains the patch.
	Size      int    // Size is the number of bytes of the patch's text.
}

// Deletion is an item that a patch deletes by its name.
type Deletion struct {
	Entry documents.Entry
	At    origin.Pos
}

// ParsePatch parses a patch's text. The parameter target is the target that the kustomization sets for the patch, or
// nil.
func ParsePatch(t documents.YAMLText, target *yaml.Node) *Patch {
	p := &Patch{At: t.Pos(&yaml.Node{Line: 1, Column: 1}), Size: len(t.Src)}
	root, fs := t.Parse()
	p.Findings = fs
	if root == nil {
		return p
	}
	p.At = t.Pos(root)
	if !p.findKind(t, root, target) {
		return p
	}
	switch root.Kind {
	case yaml.SequenceNode:
		p.parseOperations(t, root)
	case yaml.MappingNode:
		p.parseMerge(t, root, target)
	default:
		p.add(origin.Errorf(t.Pos(root), "patch", "a patch is part of a document, or a list of JSON patch operations"))
	}
	return p
}

func (p *Patch) add(fs ...origin.Finding) { p.Findings = append(p.Findings, fs...) }

// findKind finds the kind of the documents that the patch changes. If no kind matches, findKind adds a finding and
// returns false.
func (p *Patch) findKind(t documents.YAMLText, root, target *yaml.Node) bool {
	own := documents.Scalar(root, "kind")
	kind, ok := p.chooseKind(t, root, documents.Kind(documents.Scalar(target, "kind")))
	if !ok {
		return false
	}
	var known bool
	p.Info, known = kind.Info()
	if !known {
		return true // The code that reads the selector refuses this target.
	}
	if !p.Info.Wrapped && own == "" && root.Kind == yaml.MappingNode {
		below := " them"
		if p.Info.Section != "" {
			below = " " + p.Info.Section
		}
		p.add(origin.Errorf(t.Pos(root), "patch", "a patch of a %s is part of one: begin it with apiVersion: %s/%s, "+
			"kind: %[1]s and metadata, and put the rest below%[4]s", kind, p.Info.Group, p.Info.Version, below))
		return false
	}
	return true
}

// chooseKind returns the kind that the patch itself names. If the patch names no kind, chooseKind returns the kind that
// the target names, or else the kind that follows from the name of the file.
func (p *Patch) chooseKind(t documents.YAMLText, root *yaml.Node, target documents.Kind) (documents.Kind, bool) {
	if own := documents.Scalar(root, "kind"); own != "" {
		info, known := documents.KindOf(root)
		switch {
		case !known:
			p.add(origin.Errorf(t.Pos(root), "patch", "a patch is part of a Butane document, or of an object of kind "+
				"%s, with its apiVersion and kind", documents.ObjectKinds()))
		case target != "" && target != info.Kind:
			p.add(origin.Errorf(t.Pos(root), "patch", "the patch is of a %s and its target of kind %s", own, target))
			known = false
		}
		return info.Kind, known
	}
	switch {
	case target != "":
		return target, true
	case !t.Inline && strings.HasSuffix(t.File, documents.IgnitionExt):
		return documents.Ignition, true
	default:
		return documents.Butane, true
	}
}

// parseMerge prepares a patch that is part of a document.
func (p *Patch) parseMerge(t documents.YAMLText, root, target *yaml.Node) {
	p.Name = documents.Stem(t.File)
	content := root
	if !p.Info.Wrapped {
		if content = p.Info.Content(root); content != nil && content.Kind != yaml.MappingNode {
			p.add(origin.Errorf(t.Pos(content), "shape", "%s is a mapping of fields, not a list or a single value",
				p.Info.Section))
			return
		}
		if name := documents.Scalar(root, "metadata", "name"); name != "" {
			p.Name = name
		} else if t.Inline && target == nil {
			p.add(origin.Errorf(t.Pos(root), "patch-target", "the patch has no metadata.name and no target, so it is "+
				"of no document; give it one of the two"))
		}
	}
	p.add(documents.CheckDirectives(t, root)...)
	if content != nil {
		p.add(documents.CheckShapes(t, content, p.Info.Lists)...)
		p.add(documents.CheckLists(t, content, p.Info.Lists, true)...)
	}
	if p.Info.Kind == documents.Butane {
		p.add(documents.ResolveLocals(t, root)...)
		documents.QuoteScalars(root, "")
	}
	if origin.Fatal(p.Findings) {
		return
	}
	p.findDeletions(t, content)
	_, directive := documents.Field(root, "$patch")
	p.Deletes = directive != nil && directive.Value == "delete"
	t.MoveToKeys(root)
	p.Object, p.File = root, t.File
	if p.Info.Wrapped {
		p.Object = p.Info.Wrap("patch", root)
		if p.Deletes { // The patch deletes the whole document, so there is no content to merge.
			documents.Set(p.Object, "$patch", directive)
		}
	}
}

// findDeletions lists the items that the patch deletes by name.
func (p *Patch) findDeletions(t documents.YAMLText, content *yaml.Node) {
	if content == nil {
		return
	}
	for e, item := range documents.Entries(content, p.Info.Lists) {
		if _, directive := documents.Field(item, "$patch"); directive != nil && directive.Value == "delete" {
			p.Deletions = append(p.Deletions, Deletion{e, t.Pos(item)})
		}
	}
}

// readPatches reads the list of patches.
func (r *layerReader) readPatches(list *yaml.Node) {
	for _, entry := range list.Content {
		if entry.Kind != yaml.MappingNode {
			r.Add(origin.Errorf(r.text.Pos(entry), "kustomization", "a patch is {path or patch, target}"))
			continue
		}
		r.readPatch(entry)
	}
}

func (r *layerReader) readPatch(entry *yaml.Node) {
	if r.unknownKey(r.text, entry, "a patch", "path", "patch", "target", "options") || !r.checkPatchOptions(entry) {
		return
	}
	t, ok := r.patchText(entry)
	if !ok {
		return
	}
	_, target := documents.Field(entry, "target")
	p := ParsePatch(t, target)
	r.Add(p.Findings...)
	sel := &Selector{Info: p.Info, ByID: true, Name: p.Name, At: p.At, File: r.layer.File}
	if target != nil {
		kind := p.Info.Kind
		if kind == "" { // The patch is invalid, but readPatch still checks the target.
			kind = documents.Butane
		}
		if sel, ok = r.selector(target, kind, r.text); !ok {
			return
		}
	}
	if origin.Fatal(p.Findings) {
		return
	}
	switch {
	case target != nil:
	case p.Object == nil:
		r.Add(origin.Errorf(r.text.Pos(entry), "patch-target", "a JSON patch needs a target, such as target: {name: "+
			"10-chrony}"))
		return
	case t.Inline && p.Info.Wrapped:
		r.Add(origin.Errorf(r.text.Pos(entry), "patch-target", "an inline patch of a Butane document needs a target, "+
			"such as target: {name: 10-chrony}"))
		return
	}
	r.step(&Step{At: p.At, Selector: sel, Transform: p})
}

// patchText returns the patch's text, from its file or from the kustomization itself.
func (r *layerReader) patchText(entry *yaml.Node) (documents.YAMLText, bool) {
	_, file := documents.Field(entry, "path")
	_, inline := documents.Field(entry, "patch")
	switch {
	case (file == nil) == (inline == nil):
		r.Add(origin.Errorf(r.text.Pos(entry), "kustomization", "a patch has either a path or a patch"))
		return documents.YAMLText{}, false
	case inline != nil && inline.Kind != yaml.ScalarNode:
		r.Add(origin.Errorf(r.text.Pos(inline), "kustomization", "a patch is text: write patch: |- and the patch "+
			"below it"))
		return documents.YAMLText{}, false
	case inline != nil:
		offset := inline.Line - 1
		if inline.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			offset = inline.Line
		}
		t := documents.YAMLText{File: r.text.File, Src: []byte(inline.Value), Offset: offset, Inline: true}
		return t, true
	}
	full, ok := r.local(r.text, file)
	if !ok {
		return documents.YAMLText{}, false
	}
	src, err := r.Read(full)
	if err != nil {
		r.Add(documents.Unreadable(r.text.Pos(file), full, file.Value, err))
		return documents.YAMLText{}, false
	}
	return documents.YAMLText{File: full, Src: src}, true
}

// checkPatchOptions refuses options that change a document's name or kind, because targets select documents by name and
// kind.
func (r *layerReader) checkPatchOptions(entry *yaml.Node) bool {
	_, options := documents.Field(entry, "options")
	if options == nil {
		return true
	}
	for i := 0; i+1 < len(options.Content); i += 2 {
		if k, v := options.Content[i], options.Content[i+1]; v.Value != "false" {
			r.Add(origin.Errorf(r.text.Pos(k), "kustomization-field", "the option %s is not supported here: a "+
				"document is known by its name and kind; use namePrefix or nameSuffix, or name its file otherwise",
				k.Value))
			return false
		}
	}
	return true
}
