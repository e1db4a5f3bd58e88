package overlay

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// layer is one directory: what it takes in, and what it does to that, in kustomize's order.
type layer struct {
	dir string
	// file is its kustomization; empty where the directory is all its documents.
	file                  string
	component             bool
	resources, components []reference
	steps                 []*step
	// removes are the entries that this layer may make disappear, as its kustomization says, with their place.
	removes   []string
	removesAt origin.Pos
}

// reference is one entry of resources or components.
type reference struct {
	path, written string
	at            origin.Pos
	isFile        bool // no need to look
}

// parsed is a kustomization file's tree, which nobody changes, or what is wrong with it.
type parsed struct {
	root     *yaml.Node
	findings []origin.Finding
}

// reader reads one layer.
type reader struct {
	*builder
	text  text
	dir   string
	layer *layer
}

// layer reads a directory, once in a build. Nil where it cannot be read.
func (b *builder) layer(dir string, from origin.Pos) *layer {
	if l, ok := b.layersOf[dir]; ok {
		return l
	}
	b.layersOf[dir] = nil
	names, err := listing(b.fs, dir)
	if err != nil {
		b.add(fatal(from, "missing", "%s", plain(err)))
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
		b.layersOf[dir] = b.implicit(dir, names)
	case 1:
		b.layersOf[dir] = b.explicit(dir, path.Join(dir, found[0]))
	default:
		b.add(fatal(origin.Pos{File: path.Join(dir, found[1])}, "kustomization", "the directory has %s; keep one", strings.Join(found, " and ")))
	}
	return b.layersOf[dir]
}

// implicit is a directory without a kustomization: all its documents.
func (b *builder) implicit(dir string, names []string) *layer {
	b.reads[dir] = sum([]byte(strings.Join(names, "\n")))
	l := &layer{dir: dir}
	for _, n := range names {
		f := path.Join(dir, n)
		switch ext := path.Ext(n); {
		case IsButane(n) || ext == ignitionExt:
		case (ext == ".yaml" || ext == ".yml") && !b.ours(f):
			b.add(origin.Finding{
				Warning: true, Rule: "unused-file", At: origin.Pos{File: f},
				Message: "not read: a directory without a kustomization.yaml is its Butane documents (*.bu), Ignition configs (*.ign) and objects of kinds known here, and this is none; if it is a patch, add a kustomization.yaml that lists it",
			})
			continue
		case ext == ".yaml" || ext == ".yml":
		default:
			continue
		}
		l.resources = append(l.resources, reference{f, n, origin.Pos{File: f}, true})
	}
	return l
}

// explicit is a directory with a written kustomization.
func (b *builder) explicit(dir, file string) *layer {
	src, err := b.read(file)
	if err != nil {
		b.add(unreadable(origin.Pos{File: file}, file, file, err))
		return nil
	}
	t := text{file: file, src: src}
	key := keyOf(file, b.reads[file])
	p, ok := b.layers.get(key)
	if !ok {
		p.root, p.findings = t.parse()
		b.layers.put(key, p, 20*len(src)+500)
	}
	b.add(p.findings...)
	if p.root == nil {
		return nil
	}
	if p.root.Kind != yaml.MappingNode {
		b.add(fatal(t.pos(p.root), "kustomization", "a kustomization is a mapping of fields such as resources and patches"))
		return nil
	}
	r := &reader{builder: b, text: t, dir: dir, layer: &layer{dir: dir, file: file}}
	r.read(p.root)
	return r.layer
}

// read reads a kustomization field by field.
func (r *reader) read(root *yaml.Node) {
	l := r.layer
	l.component = r.checkKind(root)
	kept := map[string]*yaml.Node{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if k, v := root.Content[i], root.Content[i+1]; r.checkField(k, v) {
			kept[k.Value] = v
		}
	}
	if n := kept["metadata"]; n != nil {
		r.removals(n)
	}
	if n := kept["resources"]; n != nil {
		l.resources = r.references(n)
	}
	if n := kept["components"]; n != nil {
		l.components = r.references(n)
	}
	// This is kustomize's order.
	if n := kept["patches"]; n != nil {
		patcher{r}.patches(n)
	}
	r.rename(kept["namePrefix"], kept["nameSuffix"])
	labeler{r}.labels(kept["labels"], kept["commonLabels"], kept["commonAnnotations"])
	if n := kept["replacements"]; n != nil {
		replacer{r}.replacements(n)
	}
}

// RemovesAnnotation is where a kustomization acknowledges what it makes disappear.
const RemovesAnnotation = "bunsen.dev/removes"

// removals reads the acknowledgement: paths and names, with commas between them, or * for all.
func (r *reader) removals(metadata *yaml.Node) {
	_, annotations := field(metadata, "annotations")
	_, v := field(annotations, RemovesAnnotation)
	if v == nil {
		return
	}
	r.layer.removesAt = r.text.pos(v)
	for _, name := range strings.Split(v.Value, ",") {
		if name = strings.TrimSpace(name); name != "" {
			r.layer.removes = append(r.layer.removes, name)
		}
	}
}

// rename reads what is put before and behind names.
func (r *reader) rename(prefix, suffix *yaml.Node) {
	for _, n := range []*yaml.Node{prefix, suffix} {
		if n == nil || n.Value == "" {
			continue
		}
		c := rename{}
		if n == prefix {
			c.prefix = n.Value
		} else {
			c.suffix = n.Value
		}
		r.step(&step{key: keyOf("rename", c.prefix, c.suffix), at: r.text.pos(n), change: c})
	}
}

// step adds a step to the layer.
func (r *reader) step(s *step) {
	s.layer = r.layer
	r.layer.steps = append(r.layer.steps, s)
}

// here is a digest of the kustomization, for steps whose places lie in it.
func (r *reader) here() string { return r.layer.file + r.reads[r.layer.file] }
