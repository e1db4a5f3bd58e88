package overlay

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// Layer is one directory: its resources and components, and its steps in kustomize's order.
type Layer struct {
	Dir string
	// File is the path of the kustomization. File is empty if the directory has no kustomization; then all its
	// documents are resources.
	File                  string
	Component             bool
	Resources, Components []documents.Reference
	Steps                 []*Step
	// Removes are the entries whose removal the kustomization acknowledges in an annotation. RemovesAt is the position
	// of this annotation.
	Removes   []string
	RemovesAt origin.Pos
}

// Step is one change that a layer makes to its documents.
type Step struct {
	At        origin.Pos
	Layer     *Layer
	Selector  *Selector // A nil Selector selects all documents.
	Transform Transform
}

// Transform is the change that a step makes: a *Patch, a Replacement, a SetMetadata or a Rename.
type Transform interface{ transform() }

func (*Patch) transform()      {}
func (Replacement) transform() {}
func (SetMetadata) transform() {}
func (Rename) transform()      {}

// Reader reads the directories of one build, each directory once.
type Reader struct {
	*documents.Files
	// Layers maps the path of each directory to its layer, or to nil if the directory cannot be read.
	Layers map[string]*Layer
}

// NewReader returns a Reader that has not read any directory yet.
func NewReader(fsys fs.FS) *Reader {
	return &Reader{Files: documents.NewFiles(fsys), Layers: map[string]*Layer{}}
}

// layerReader reads one layer.
type layerReader struct {
	*Reader
	text  documents.YAMLText
	dir   string
	layer *Layer
}

// Layer reads a directory, once in a build. Layer returns nil if the directory cannot be read.
func (b *Reader) Layer(dir string, from origin.Pos) *Layer {
	if l, ok := b.Layers[dir]; ok {
		return l
	}
	b.Layers[dir] = nil
	names, err := documents.Listing(b.FS, dir)
	if err != nil {
		b.Add(origin.Errorf(from, "missing", "%s", documents.ReadProblem(err)))
		return nil
	}
	var found []string
	for _, n := range kustomizations {
		if slices.Contains(names, n) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		b.Layers[dir] = b.implicit(dir, names)
	case 1:
		b.Layers[dir] = b.explicit(dir, path.Join(dir, found[0]))
	default:
		b.Add(origin.Errorf(origin.Pos{File: path.Join(dir, found[1])}, "kustomization",
			"the directory has %s; keep one", strings.Join(found, " and ")))
	}
	return b.Layers[dir]
}

// listKind matches an object of kind List, as kubectl prints several objects.
var listKind = regexp.MustCompile(`(?m)^["']?kind["']?:[ \t]*["']?[A-Za-z]*List["']?[ \t\r]*$`)

// implicit returns the layer of a directory without a kustomization. All documents of the directory are resources of
// this layer.
func (b *Reader) implicit(dir string, names []string) *Layer {
	l := &Layer{Dir: dir}
	for _, n := range names {
		f := path.Join(dir, n)
		switch ext := path.Ext(n); {
		case documents.IsButane(n) || ext == documents.IgnitionExt:
		case (ext == ".yaml" || ext == ".yml") && !b.MayDeclare(f):
			if b.IsEncrypted(f) {
				continue // a document includes it
			}
			if src, err := b.Read(f); err == nil && listKind.Match(src) {
				b.Add(origin.Warningf(origin.Pos{File: f}, "unused-file", "not read: a List has several objects. Put "+
					"each of them into a file of its own, or run `bunsen import`, which does that"))
				continue
			}
			b.Add(origin.Warningf(origin.Pos{File: f}, "unused-file", "not read: without a kustomization.yaml, "+
				"Bunsen reads only Butane documents (*.bu), Ignition configs (*.ign) and objects of known kinds. If "+
				"the file is a patch, add a kustomization.yaml that lists it"))
			continue
		case ext == ".yaml" || ext == ".yml":
		default:
			continue
		}
		l.Resources = append(l.Resources, documents.Reference{
			Path: f, Written: n, At: origin.Pos{File: f},
			IsFile: true,
		})
	}
	return l
}

// explicit returns the layer of a directory that has a kustomization file.
func (b *Reader) explicit(dir, file string) *Layer {
	src, err := b.Read(file)
	if err != nil {
		b.Add(documents.Unreadable(origin.Pos{File: file}, file, file, err))
		return nil
	}
	t := documents.YAMLText{File: file, Src: src}
	root, fs := t.Parse()
	b.Add(fs...)
	if root == nil {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		b.Add(origin.Errorf(t.Pos(root), "kustomization", "a kustomization is a mapping of fields such as resources "+
			"and patches"))
		return nil
	}
	r := &layerReader{Reader: b, text: t, dir: dir, layer: &Layer{Dir: dir, File: file}}
	r.read(root)
	return r.layer
}

// read reads a kustomization field by field.
func (r *layerReader) read(root *yaml.Node) {
	l := r.layer
	l.Component = r.checkKind(root)
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if k, v := root.Content[i], root.Content[i+1]; r.checkField(k, v) {
			fields[k.Value] = v
		}
	}
	if n := fields["metadata"]; n != nil {
		r.removals(n)
	}
	if n := fields["resources"]; n != nil {
		l.Resources = r.references(n)
	}
	if n := fields["components"]; n != nil {
		l.Components = r.references(n)
	}
	// The order of these fields is that of kustomize.
	if n := fields["patches"]; n != nil {
		r.readPatches(n)
	}
	r.rename(fields["namePrefix"], fields["nameSuffix"])
	r.readLabels(fields["labels"], fields["commonLabels"], fields["commonAnnotations"])
	if n := fields["replacements"]; n != nil {
		r.readReplacements(n)
	}
}

// readReplacements reads the list of replacements.
func (r *layerReader) readReplacements(list *yaml.Node) {
	for _, n := range list.Content {
		k, v := documents.Field(n, "path")
		if k == nil {
			r.readReplacement(r.text, n)
			continue
		}
		if len(n.Content) > 2 {
			r.Add(origin.Errorf(r.text.Pos(n), "replacement", "a replacement from a file has a path and nothing else"))
			continue
		}
		full, ok := r.local(r.text, v)
		if !ok {
			continue
		}
		src, err := r.Read(full)
		if err != nil {
			r.Add(documents.Unreadable(r.text.Pos(v), full, v.Value, err))
			continue
		}
		t := documents.YAMLText{File: full, Src: src}
		root, fs := t.Parse()
		r.Add(fs...)
		switch {
		case root == nil:
		case root.Kind == yaml.SequenceNode:
			for _, item := range root.Content {
				r.readReplacement(t, item)
			}
		default:
			r.readReplacement(t, root)
		}
	}
}

// readReplacement reads one replacement. Each target of a replacement becomes a step of its own.
func (r *layerReader) readReplacement(t documents.YAMLText, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a replacement is {source, targets}"))
		return
	}
	if r.unknownKey(t, n, "a replacement", "source", "sourceValue", "targets") {
		return
	}
	var c Replacement
	_, source := documents.Field(n, "source")
	_, value := documents.Field(n, "sourceValue")
	_, targets := documents.Field(n, "targets")
	switch {
	case (source == nil) == (value == nil):
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a replacement has either a source or a sourceValue"))
		return
	case targets == nil || targets.Kind != yaml.SequenceNode || len(targets.Content) == 0:
		r.Add(origin.Errorf(t.Pos(n), "replacement",
			"a replacement has targets: [{select: {name: …}, fieldPaths: […]}]"))
		return
	case value != nil && value.Kind != yaml.ScalarNode:
		r.Add(origin.Errorf(t.Pos(value), "replacement", "a sourceValue is text"))
		return
	case value != nil:
		c.Value = &value.Value
	case !r.readSource(t, source, &c):
		return
	}
	for _, target := range targets.Content {
		one := c
		if r.readTarget(t, target, &one) {
			r.step(&Step{At: t.Pos(target), Selector: one.Target, Transform: one})
		}
	}
}

// readTarget reads to which documents and fields a replacement copies its value.
func (r *layerReader) readTarget(t documents.YAMLText, n *yaml.Node, c *Replacement) bool {
	if n.Kind != yaml.MappingNode {
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a target is {select, fieldPaths}"))
		return false
	}
	if r.unknownKey(t, n, "a target", "select", "reject", "fieldPaths", "options") {
		return false
	}
	_, sel := documents.Field(n, "select")
	_, paths := documents.Field(n, "fieldPaths")
	_, options := documents.Field(n, "options")
	var ok bool
	if sel == nil {
		sel = &yaml.Node{Line: n.Line, Column: n.Column}
	}
	if c.Target, ok = r.selector(sel, documents.Butane, t); !ok {
		return false
	}
	c.Target.AnyName = true
	if !r.readReject(t, n, c) {
		return false
	}
	if paths == nil || paths.Kind != yaml.SequenceNode || len(paths.Content) == 0 {
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a target has fieldPaths, such as [storage.files.0.path]"))
		return false
	}
	for _, p := range paths.Content {
		if !r.readFieldPath(t, p, c) {
			return false
		}
	}
	c.To, ok = r.readFieldOptions(t, options)
	return ok
}

// readFieldPath reads the path of one field to which a replacement copies its value.
func (r *layerReader) readFieldPath(t documents.YAMLText, p *yaml.Node, c *Replacement) bool {
	f := TargetField{p.Value, t.Pos(p)}
	switch first, _, _ := strings.Cut(p.Value, "."); {
	case c.Target.Info.Wrapped:
		f.Path = c.Target.Info.Section + "." + p.Value
	case first == "kind", first == "apiVersion", p.Value == "metadata", p.Value == "metadata.name":
		r.Add(origin.Errorf(f.At, "replacement", "a document is known by its kind and name, and %s would change "+
			"them; use namePrefix or nameSuffix", p.Value))
		return false
	}
	if p.Kind != yaml.ScalarNode || p.Value == "" {
		r.Add(origin.Errorf(f.At, "replacement", "a field path is words with dots between them, such as "+
			"storage.files.0.path"))
		return false
	}
	c.Fields = append(c.Fields, f)
	return true
}

// readSource reads from which document and field a replacement copies its value.
func (r *layerReader) readSource(t documents.YAMLText, n *yaml.Node, c *Replacement) bool {
	if n.Kind != yaml.MappingNode {
		r.Add(origin.Errorf(t.Pos(n), "replacement", "a source is {name, fieldPath}"))
		return false
	}
	id, options := documents.Mapping(), (*yaml.Node)(nil)
	c.Path = "metadata.name"
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k, v := n.Content[i], n.Content[i+1]; k.Value {
		case "fieldPath":
			if c.Path = v.Value; v.Kind != yaml.ScalarNode || v.Value == "" {
				r.Add(origin.Errorf(t.Pos(v), "replacement", "a fieldPath is words with dots between them, such as "+
					"storage.files.0.path"))
				return false
			}
		case "options":
			options = v
		default:
			id.Content = append(id.Content, k, v)
		}
	}
	id.Line, id.Column = n.Line, n.Column
	sel, ok := r.selector(id, documents.Butane, t)
	if !ok {
		return false
	}
	if _, said := documents.Field(n, "fieldPath"); said != nil && sel.Info.Wrapped {
		c.Path = sel.Info.Section + "." + c.Path
	}
	sel.ByID, sel.IsSource, c.Source = sel.Name != "", true, sel
	c.From, ok = r.readFieldOptions(t, options)
	return ok
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

// readLabels reads labels, commonLabels and commonAnnotations, in kustomize's order.
func (r *layerReader) readLabels(labels, commonLabels, commonAnnotations *yaml.Node) {
	if labels != nil {
		for _, l := range labels.Content {
			if l.Kind != yaml.MappingNode {
				r.Add(origin.Errorf(r.text.Pos(l), "kustomization", "an item of labels is {pairs: {key: value}}"))
				continue
			}
			if _, pairs := documents.Field(l, "pairs"); !r.hasUnknownLabelField(l) && pairs != nil {
				r.readPairs("labels", pairs)
			}
		}
	}
	if commonLabels != nil {
		r.readPairs("labels", commonLabels)
	}
	if commonAnnotations != nil {
		r.readPairs("annotations", commonAnnotations)
	}
}

// readPairs adds a step for each label or annotation.
func (r *layerReader) readPairs(to string, pairs *yaml.Node) {
	if pairs.Kind != yaml.MappingNode {
		r.Add(origin.Errorf(r.text.Pos(pairs), "kustomization", "%s are a mapping of words to words", to))
		return
	}
	for i := 0; i+1 < len(pairs.Content); i += 2 {
		k, v := pairs.Content[i], pairs.Content[i+1]
		if v.Kind != yaml.ScalarNode || v.Tag != "!!str" {
			r.Add(origin.Errorf(r.text.Pos(v), "kustomization", "the value of %s is text; put it in quotation marks",
				k.Value))
			continue
		}
		c := SetMetadata{to, k.Value, v.Value, r.text.Pos(k)}
		r.step(&Step{At: c.At, Transform: c})
	}
}

// hasUnknownLabelField refuses fields that would write labels outside the metadata. hasUnknownLabelField reports
// whether it has refused a field.
func (r *layerReader) hasUnknownLabelField(l *yaml.Node) bool {
	for i := 0; i+1 < len(l.Content); i += 2 {
		k, v := l.Content[i], l.Content[i+1]
		switch k.Value {
		case "pairs":
		case "includeSelectors", "includeTemplates", "includeVolumeClaimTemplates":
			if v.Value != "false" {
				r.Add(origin.Warningf(r.text.Pos(k), "ignored-field", "%s changes nothing: no document here has "+
					"selectors or templates", k.Value))
			}
		case "fields":
			r.Add(origin.Errorf(r.text.Pos(k), "kustomization-field", "labels go to the metadata only, and fields "+
				"would write them elsewhere; use a patch"))
			return true
		default:
			return r.unknownKey(r.text, l, "an item of labels", "pairs", "includeSelectors", "includeTemplates",
				"includeVolumeClaimTemplates")
		}
	}
	return false
}

// RemovesAnnotation is the annotation in which a kustomization acknowledges which entries it removes.
const RemovesAnnotation = "bunsen.dev/removes"

// removals reads RemovesAnnotation: paths and names, separated by commas, or * for all.
func (r *layerReader) removals(metadata *yaml.Node) {
	_, annotations := documents.Field(metadata, "annotations")
	_, v := documents.Field(annotations, RemovesAnnotation)
	if v == nil {
		return
	}
	r.layer.RemovesAt = r.text.Pos(v)
	for _, name := range strings.Split(v.Value, ",") {
		if name = strings.TrimSpace(name); name != "" {
			r.layer.Removes = append(r.layer.Removes, name)
		}
	}
}

// rename reads the prefix and the suffix of names.
func (r *layerReader) rename(prefix, suffix *yaml.Node) {
	for _, n := range []*yaml.Node{prefix, suffix} {
		if n == nil || n.Value == "" {
			continue
		}
		c := Rename{}
		if n == prefix {
			c.Prefix = n.Value
		} else {
			c.Suffix = n.Value
		}
		r.step(&Step{At: r.text.Pos(n), Transform: c})
	}
}

// step adds a step to the layer.
func (r *layerReader) step(s *Step) {
	s.Layer = r.layer
	r.layer.Steps = append(r.layer.Steps, s)
}
