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
