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
