package overlay

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// patcher prepares the patches and replacements of one kustomization.
type patcher struct {
	guard
	t   text // the kustomization
	dir string
}

// patches rewrites a kustomization's patches so that all of them are inline and speak of wrapped documents.
func (p patcher) patches(list *yaml.Node) {
	if list.Kind != yaml.SequenceNode {
		p.add(fatal(p.t.pos(list), "kustomization", "patches is a list of {path or patch, target}"))
		return
	}
	for _, entry := range list.Content {
		if entry.Kind != yaml.MappingNode {
			p.add(fatal(p.t.pos(entry), "kustomization", "a patch is {path or patch, target}"))
			continue
		}
		p.patch(entry)
	}
}

func (p patcher) patch(entry *yaml.Node) {
	for i := 0; i < len(entry.Content); i += 2 {
		if k := entry.Content[i]; !slices.Contains([]string{"path", "patch", "target", "options"}, k.Value) {
			p.add(fatal(p.t.pos(k), "kustomization-field", "a patch has no field %s; it has path, patch, target and options", k.Value))
			return
		}
	}
	body, ok := p.text(entry)
	if !ok {
		return
	}
	root, fs := body.parse()
	p.add(fs...)
	if root == nil {
		return
	}
	_, target := field(entry, "target")
	kind := Butane
	if scalarAt(root, "kind") != "" {
		kind = MachineConfig
	}
	if !p.checkTarget(target, kind) {
		return
	}
	switch {
	case root.Kind == yaml.SequenceNode:
		p.json(body, root, target, entry)
	case root.Kind != yaml.MappingNode:
		p.add(fatal(body.pos(root), "patch", "a patch is part of a document, or a list of JSON patch operations"))
		return
	default:
		root = p.merge(body, root, target, entry)
	}
	if root == nil {
		return
	}
	src, err := encode(root)
	if err != nil {
		p.add(fatal(body.pos(root), "patch", "%v", err))
		return
	}
	kept := mapping(str("patch"), str(string(src)))
	for _, key := range []string{"target", "options"} {
		if _, v := field(entry, key); v != nil {
			set(kept, key, v)
		}
	}
	entry.Content = kept.Content
}

// text returns the patch's text, from its file or from the kustomization itself.
func (p patcher) text(entry *yaml.Node) (text, bool) {
	_, file := field(entry, "path")
	_, inline := field(entry, "patch")
	switch {
	case (file == nil) == (inline == nil):
		p.add(fatal(p.t.pos(entry), "kustomization", "a patch has either a path or a patch"))
		return text{}, false
	case inline != nil:
		offset := inline.Line - 1
		if inline.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			offset = inline.Line
		}
		return text{file: p.t.file, src: []byte(inline.Value), offset: offset, inline: true}, true
	}
	full, ok := p.local(p.t, p.dir, file)
	if !ok {
		return text{}, false
	}
	src, err := p.read(full)
	if err != nil {
		p.add(fatal(p.t.pos(file), "missing", "%q: %s", file.Value, plain(err)))
		return text{}, false
	}
	return text{file: full, src: src}, true
}

// merge prepares part of a document.
func (p patcher) merge(body text, root, target, entry *yaml.Node) *yaml.Node {
	if kind := scalarAt(root, "kind"); kind != "" {
		_, spec := field(root, "spec")
		if kind != machineConfigKind || spec == nil {
			p.add(fatal(body.pos(root), "patch", "a patch is part of a Butane document, or a MachineConfig with a spec"))
			return nil
		}
		p.add(body.checkShapes(spec, machineConfigLists)...)
		p.add(body.checkLists(spec, machineConfigLists, true)...)
		p.mark(body, spec, "")
		if target != nil {
			set(target, "kind", str(machineConfigKind))
		}
		return root
	}
	if scalarAt(target, "kind") == machineConfigKind {
		p.add(fatal(body.pos(root), "patch", "a patch of a MachineConfig is part of one: begin it with apiVersion: %s/%s, kind: %s and metadata, and put the rest below spec", machineConfigGroup, machineConfigVersion, machineConfigKind))
		return nil
	}
	name := stem(body.file)
	if body.inline || target != nil {
		name = "patch"
	}
	if body.inline && target == nil {
		p.add(fatal(p.t.pos(entry), "patch-target", "an inline patch of a Butane document needs a target, such as target: {name: 10-chrony}"))
		return nil
	}
	if target == nil && p.declared[name] == nil {
		p.add(fatal(body.pos(root), "patch-target", "no document is named %q here; name the patch file as the document's, or give the patch a target such as {name: 10-chrony}", name))
		return nil
	}
	p.add(body.checkShapes(root, butaneLists)...)
	p.add(body.checkLists(root, butaneLists, true)...)
	p.add(body.localize(root)...)
	quote(root, "")
	p.mark(body, root, "")
	targetButane(target)
	whole := wrap(name, "", root)
	if _, directive := field(root, "$patch"); directive != nil && directive.Value == "delete" {
		set(whole, "$patch", directive) // the document itself goes, not only what it says
	}
	return whole
}

// json prepares a list of JSON patch operations: their paths are those of the plain document.
func (p patcher) json(body text, ops, target, entry *yaml.Node) {
	if target == nil {
		p.add(fatal(p.t.pos(entry), "patch-target", "a JSON patch needs a target, such as target: {name: 10-chrony}"))
		return
	}
	wrapped := targetButane(target)
	for _, op := range ops.Content {
		if !p.checkOperation(body, op) {
			continue
		}
		last := ""
		for _, key := range []string{"from", "path"} {
			_, v := field(op, key)
			if v == nil {
				continue
			}
			if wrapped {
				v.Value = "/spec" + v.Value
			}
			v.Style = yaml.DoubleQuotedStyle
			last = v.Value
		}
		if _, v := field(op, "value"); v != nil && wrapped {
			words := strings.Split(last, "/")
			quote(v, words[len(words)-1])
			p.add(body.localize(v)...)
		}
		at := body.pos(op)
		p.edits = append(p.edits, edit{path: documentPath(strings.ReplaceAll(last, "/", ".")), target: scalarAt(target, "name"), at: at})
	}
}

// documentPath turns `.spec.storage.files.-` into `$.storage.files.-`.
func documentPath(p string) string {
	return "$." + strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(p, "."), "spec"), ".")
}

// targetButane narrows a target to Butane documents where it names no kind, and tells whether it means them.
func targetButane(target *yaml.Node) bool {
	if target == nil {
		return true
	}
	switch scalarAt(target, "kind") {
	case "":
		set(target, "kind", str(butaneKind))
		return true
	default:
		return scalarAt(target, "kind") == butaneKind
	}
}

// replacements lets inline replacements in, with paths of the plain document.
func (p patcher) replacements(list *yaml.Node) {
	for _, r := range list.Content {
		if k, _ := field(r, "path"); k != nil {
			p.add(fatal(p.t.pos(k), "kustomization-field", "replacements from a file are not supported; write them in the kustomization"))
			continue
		}
		_, source := field(r, "source")
		prefixFields(source, source, "fieldPath")
		_, targets := field(r, "targets")
		if targets == nil {
			continue
		}
		for _, target := range targets.Content {
			_, sel := field(target, "select")
			if !p.checkTarget(sel, Butane) {
				continue
			}
			prefixFields(target, sel, "fieldPaths")
			_, paths := field(target, "fieldPaths")
			if paths == nil {
				continue
			}
			for _, f := range paths.Content {
				p.edits = append(p.edits, edit{path: documentPath("." + f.Value), target: scalarAt(sel, "name"), at: p.t.pos(f)})
			}
		}
	}
}

// prefixFields puts `spec.` before field paths of Butane documents.
func prefixFields(holder, selector *yaml.Node, key string) {
	_, v := field(holder, key)
	if v == nil || selector == nil || selector.Kind != yaml.MappingNode || !targetButane(selector) {
		return
	}
	if v.Kind == yaml.ScalarNode {
		v.Value = "spec." + v.Value
	}
	for _, p := range v.Content {
		p.Value = "spec." + p.Value
	}
}
