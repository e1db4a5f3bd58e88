package overlay

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/message"
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

func (*Patch) transform() {}

func (Replacement) transform() {}

func (SetMetadata) transform() {}

func (Rename) transform() {}

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

// kustomizations are the possible names of a kustomization file. A directory may have only one of these files.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

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

// listKind matches an object of kind List, as kubectl prints several objects.
var listKind = regexp.MustCompile(`(?m)^["']?kind["']?:[ \t]*["']?[A-Za-z]*List["']?[ \t\r]*$`)

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

// layerReader reads one layer.
type layerReader struct {
	*Reader
	text  documents.YAMLText
	dir   string
	layer *Layer
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

// checkKind checks the fields apiVersion and kind of a kustomization. checkKind reports whether the kustomization is a
// component.
func (r *layerReader) checkKind(root *yaml.Node) bool {
	kind, want := documents.Scalar(root, "kind"), "kustomize.config.k8s.io/v1beta1"
	switch kind {
	case "Component":
		want = "kustomize.config.k8s.io/v1alpha1"
	case "Kustomization", "":
	default:
		_, v := documents.Field(root, "kind")
		r.Add(origin.Errorf(r.text.Pos(v), "kustomization", "the kind of a kustomization is Kustomization or "+
			"Component, not %q", kind))
		return false
	}
	if v := documents.Scalar(root, "apiVersion"); v != "" && v != want {
		_, n := documents.Field(root, "apiVersion")
		r.Add(origin.Errorf(r.text.Pos(n), "kustomization", "the apiVersion of a %s is %s, not %q",
			cmp.Or(kind, "Kustomization"), want, v))
	}
	return kind == "Component"
}

// checkField checks one field of a kustomization and reports whether Bunsen uses the field.
func (r *layerReader) checkField(k, v *yaml.Node) bool {
	t := r.text
	if want, known := shapes[k.Value]; known {
		isEmpty := v.Tag == "!!null" && want != yaml.ScalarNode
		if v.Kind != want && !isEmpty {
			r.Add(origin.Errorf(t.Pos(v), "kustomization", "%s is %s", k.Value, shapeNames[want]))
		}
		return v.Kind == want
	}
	switch k.Value {
	case "sortOptions":
		if order := documents.Scalar(v, "order"); order != "fifo" && order != "legacy" {
			r.Add(origin.Errorf(t.Pos(v), "kustomization", "the order of sortOptions is fifo or legacy; it changes "+
				"nothing here, for documents merge in order of their names: remove it"))
			break
		}
		r.Add(origin.Warningf(t.Pos(k), "ignored-field", "sortOptions changes nothing: documents merge in order of "+
			"their names"))
	case "buildMetadata": // buildMetadata is accepted and ignored, because the build always records origins.
	default:
		r.Add(origin.Errorf(t.Pos(k), "kustomization-field", "the field %s is not supported here: %s", k.Value,
			unsupportedField(k.Value)))
	}
	return false
}

// allowed are the fields of a kustomization that Bunsen accepts. Fields that are not allowed run programs, fetch from
// the network, generate contents, or change how other builds merge.
var allowed = []string{
	"apiVersion", "kind", "metadata", "resources", "components", "patches", "namePrefix", "nameSuffix",
	"labels", "commonLabels", "commonAnnotations", "buildMetadata", "replacements", "sortOptions",
}

// refused maps each known field that is not allowed to the reason.
var refused = map[string]string{
	"openapi":                     "it would change how every list merges; Butane's lists merge by path and name already",
	"generators":                  "generators run programs",
	"transformers":                "transformers run programs",
	"validators":                  "validators run programs",
	"helmCharts":                  "charts are fetched and run by helm",
	"helmChartInflationGenerator": "charts are fetched and run by helm",
	"helmGlobals":                 "charts are fetched and run by helm",
	"configMapGenerator":          "nothing but Butane documents and MachineConfigs reaches a node; take a file into a document with `contents: {local: FILE}`",
	"secretGenerator":             "nothing but Butane documents and MachineConfigs reaches a node",
	"generatorOptions":            "there are no generators",
	"crds":                        "it would change how lists merge",
	"configurations":              "it would change the fields that get names and labels",
	"namespace":                   "nothing here has a namespace",
	"images":                      "no document has containers; write the image into the document, or use replacements",
	"imageTags":                   "no document has containers; write the image into the document, or use replacements",
	"replicas":                    "no document has replicas",
	"bases":                       "list the directories under resources",
	"patchesStrategicMerge":       "write patches: [{path: …}]",
	"patchesJson6902":             "write patches: [{target: …, patch: …}]",
	"vars":                        "use replacements",
}

// shapes maps each field to the kind of YAML node that it must have.
var shapes = map[string]yaml.Kind{
	"resources": yaml.SequenceNode, "components": yaml.SequenceNode, "patches": yaml.SequenceNode,
	"replacements": yaml.SequenceNode, "labels": yaml.SequenceNode,
	"commonLabels": yaml.MappingNode, "commonAnnotations": yaml.MappingNode, "metadata": yaml.MappingNode,
	"namePrefix": yaml.ScalarNode, "nameSuffix": yaml.ScalarNode, "apiVersion": yaml.ScalarNode,
	"kind": yaml.ScalarNode,
}

var shapeNames = map[yaml.Kind]string{
	yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping",
	yaml.ScalarNode: "one word",
}

// unsupportedField returns why a field is not supported, or which field the user may have meant.
func unsupportedField(name string) string {
	why, known := refused[name]
	meant := message.Closest(name, allowed[3:])
	switch {
	case known:
		return why
	case meant != "":
		return fmt.Sprintf("did you mean %q?", meant)
	default:
		return "known are " + strings.Join(allowed[3:], ", ")
	}
}

// references reads the entries of resources or components.
func (r *layerReader) references(n *yaml.Node) []documents.Reference {
	var out []documents.Reference
	seen := map[string]int{}
	for _, e := range n.Content {
		full, ok := r.local(r.text, e)
		if !ok {
			continue
		}
		if line, twice := seen[full]; twice {
			r.Add(origin.Errorf(r.text.Pos(e), "duplicate-name", "%q is listed twice, first in line %d; keep one",
				e.Value, line))
			continue
		}
		seen[full] = e.Line
		out = append(out, documents.Reference{Path: full, Written: e.Value, At: r.text.Pos(e)})
	}
	return out
}

// local returns the path of a file relative to the repository's root. local refuses paths that are absolute, leave the
// repository or look like a URL, because kustomize would fetch a URL even if a directory of that name exists.
func (r *layerReader) local(t documents.YAMLText, e *yaml.Node) (string, bool) {
	p := e.Value
	full := path.Join(r.dir, p)
	switch {
	case e.Kind != yaml.ScalarNode || p == "" || e.Tag == "!!null":
		r.Add(origin.Errorf(t.Pos(e), "kustomization", "a path is expected here"))
	case strings.ContainsAny(p, "?@*:\\\x00\n") || strings.Contains(p, "//") || remote.MatchString(p):
		r.Add(origin.Errorf(t.Pos(e), "remote-base", "%q looks like a remote repository or URL, and a commit must "+
			"contain everything that it uses. Copy it into this repository, and write a relative path", p))
	case path.IsAbs(p):
		r.Add(origin.Errorf(t.Pos(e), "path", "%q is absolute; name it relative to this directory", p))
	case full == ".." || strings.HasPrefix(full, "../"):
		r.Add(origin.Errorf(t.Pos(e), "path", "%q leaves the repository; copy it in and name it by a relative path", p))
	default:
		return full, true
	}
	return "", false
}

// remote matches hosts that have a special meaning in kustomize, and parts of paths that kustomize reads as the end of
// a URL.
var remote = regexp.MustCompile(`(?i)^(\./)*(github|gitlab|bitbucket)\.(com|org)|\.git(/|$)|_git(/|$)`)

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

// WarnUnlisted looks in directories with a kustomization. WarnUnlisted warns of each document in the directory that no
// kustomization lists.
func (b *Reader) WarnUnlisted() {
	for _, dir := range slices.Sorted(maps.Keys(b.Layers)) {
		l := b.Layers[dir]
		if l == nil || l.File == "" {
			continue
		}
		names, err := documents.Listing(b.FS, dir)
		if err != nil {
			continue // Reading the directory has reported this error already.
		}
		for _, n := range names {
			f := path.Join(dir, n)
			if _, read := b.Reads[f]; read || !documents.IsButane(n) && path.Ext(n) != documents.IgnitionExt {
				continue
			}
			b.Add(origin.Warningf(origin.Pos{File: f}, "unused-file", "not read: %s does not list it; add it there "+
				"under resources, or under patches, or remove it", l.File))
		}
	}
}

// unknownKey refuses keys that a part of a kustomization may not have. unknownKey reports whether it has refused a key.
func (r *layerReader) unknownKey(t documents.YAMLText, n *yaml.Node, what string, keys ...string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; !slices.Contains(keys, k.Value) {
			last := len(keys) - 1
			meant := message.Closest(k.Value, keys)
			if meant != "" {
				meant = fmt.Sprintf("; did you mean %q?", meant)
			} else {
				meant = fmt.Sprintf("; it has %s and %s", strings.Join(keys[:last], ", "), keys[last])
			}
			r.Add(origin.Errorf(t.Pos(k), "kustomization-field", "%s has no field %s%s", what, k.Value, meant))
			return true
		}
	}
	return false
}
