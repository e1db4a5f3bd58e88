package overlay

import (
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// declared is what a file declares, as far as the layers need to know. It does not change and may be remembered.
type declared struct {
	about    about
	name     string
	findings []origin.Finding
	// broken: there is no document, or none to trust.
	broken bool
	// named: the object has a name of its own.
	named bool
	// foreign: it is YAML that is nobody's here; almost: but for its version.
	foreign, almost bool
	// rewritten: its tree says some of it in another way than its text.
	rewritten bool
}

// file is one file of this build that declares a document.
type file struct {
	declared
	path, key string
	src       []byte
	root      *yaml.Node // as an object, not marked; nil where it is parsed again when it is needed
}

// file reads one document. Nil where it cannot be read.
func (b *builder) file(from reference) *file {
	name := from.path
	if f, ok := b.files[name]; ok {
		return f
	}
	b.files[name] = nil
	src, err := b.read(name)
	if err != nil {
		b.add(unreadable(from.at, name, from.written, err))
		return nil
	}
	f := &file{path: name, key: fileKey(name, b.reads[name]), src: src}
	if hit, ok := b.Builder.declared.get(f.key); ok {
		f.declared = hit
	} else {
		f.declared, f.root = declare(name, src)
		b.Builder.declared.put(f.key, f.declared, 200+200*len(f.findings))
		if b.held += len(src); b.held > maxHeld {
			f.root = nil
		}
	}
	b.files[name] = f
	if !f.foreign {
		b.ordered = append(b.ordered, f)
		b.add(f.findings...)
	}
	return f
}

// fileKey tells what a file declares from what every other does.
func fileKey(name, digest string) string { return name + "\x00" + digest }

// take is the document as its file has it, in a tree that the caller may change. held: the tree was there already.
func (f *file) take() (root *yaml.Node, held bool) {
	root = f.root
	f.root = nil
	if root == nil {
		_, root = declare(f.path, f.src)
		return root, false
	}
	return root, true
}

// object is take, settled for patches.
func (f *file) object() *yaml.Node {
	root, _ := f.take()
	text{file: f.path}.settle(root)
	return root
}

// declare reads a file's document as the object that kustomize shall see.
func declare(name string, src []byte) (declared, *yaml.Node) {
	t := text{file: name, src: src}
	root, fs := t.parse()
	d := declared{findings: fs, broken: true, name: stem(name)}
	switch {
	case path.Ext(name) == ignitionExt:
		d.about, _ = Ignition.about()
	case IsButane(name):
		d.about, _ = Butane.about()
	}
	if root == nil {
		return d, nil
	}
	if root.Kind != yaml.MappingNode {
		d.add(fatal(t.pos(root), "document", "a document is a mapping that begins with `variant:` and `version:`"))
		return d, nil
	}
	if k, v := field(root, "sops"); v != nil && v.Kind == yaml.MappingNode {
		d.add(fatal(t.pos(k), "encrypted", "the document is encrypted with SOPS, and Bunsen cannot decrypt it: remove it, and let a service on the node fetch the secret"))
		return d, nil
	}
	a, object := kindOf(root)
	switch {
	case d.about.kind == Ignition:
		root = d.about.wrap(d.name, root)
		d.ignition(t, root)
	case scalarAt(root, "variant") != "" || d.about.kind == Butane:
		d.about, _ = Butane.about()
		root = d.about.wrap(d.name, root)
		d.butane(t, root)
	case object:
		d.about = a
		d.object(t, root)
	default:
		d.foreign = true
		_, d.almost = Kind(scalarAt(root, "kind")).about()
		if instead := unsupported[scalarAt(root, "kind")]; instead != "" {
			d.almost = true
			d.add(fatal(t.pos(root), "kind", "kind %s is not supported: %s", scalarAt(root, "kind"), instead))
			break
		}
		d.add(fatal(t.pos(root), "kind", "a pool is made of Butane documents, of Ignition configs (*.ign), and of objects of kind %s, and this is %s; cluster objects belong into cluster/", objectKinds(), what(root)))
	}
	d.broken = origin.Fatal(d.findings)
	return d, root
}

func (d *declared) add(fs ...origin.Finding) { d.findings = append(d.findings, fs...) }

// objectKinds lists the kinds that are objects, with their versions.
func objectKinds() string {
	var out []string
	for _, a := range kinds {
		if !a.plain {
			out = append(out, string(a.kind)+" ("+a.group+"/"+a.version+")")
		}
	}
	return strings.Join(out, ", ")
}

// what a thing says it is.
func what(root *yaml.Node) string {
	kind := scalarAt(root, "kind")
	if kind == "" {
		return "neither"
	}
	if _, known := Kind(kind).about(); known {
		return "a " + kind + " of " + scalarAt(root, "apiVersion")
	}
	return "a " + kind
}

// stem is a file's name without directory and extension.
func stem(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }

func (d *declared) butane(t text, root *yaml.Node) {
	content := d.about.content(root)
	d.add(t.checkShapes(content, butaneLists)...)
	d.add(t.checkLists(content, butaneLists, false)...)
	d.add(t.checkPaths(content)...)
	l := localizer{text: t}
	d.add(l.walk(content)...)
	d.rewritten = quote(content, "") || l.changed
}

// ignition checks what kustomize would trip over. Ignition 2 lets a path stand twice; it cannot be patched, see merge.
func (d *declared) ignition(t text, root *yaml.Node) {
	content := d.about.content(root)
	d.add(t.checkShapes(content, ignitionLists)...)
	if !ignition2(content) {
		d.add(t.checkLists(content, ignitionLists, false)...)
	}
}

func ignition2(content *yaml.Node) bool {
	return strings.HasPrefix(scalarAt(content, "ignition", "version"), "2.")
}

func (d *declared) object(t text, root *yaml.Node) {
	content := d.about.content(root)
	if content == nil || content.Kind != yaml.MappingNode {
		d.add(fatal(t.pos(root), "document", "the %s has no spec", d.about.kind))
		return
	}
	d.add(t.checkShapes(content, d.about.lists)...)
	d.add(t.checkLists(content, d.about.lists, false)...)
	_, meta := field(root, "metadata")
	switch name := scalarAt(meta, "name"); {
	case meta != nil && meta.Kind != yaml.MappingNode:
		d.add(fatal(t.pos(meta), "shape", "metadata is a mapping of fields, not a list or a single value"))
	case name != "":
		d.name, d.named = name, true
	case d.about.kind != KubeletConfiguration:
		d.add(fatal(t.pos(root), "document", "the %s has no metadata.name", d.about.kind))
	}
	for _, key := range []string{"labels", "annotations"} {
		if _, v := field(meta, key); v != nil && v.Kind != yaml.MappingNode && v.Tag != "!!null" {
			d.add(fatal(t.pos(v), "shape", "metadata.%s is a mapping of fields, not a list or a single value", key))
		}
	}
}

// unsupported are kinds of the original that configure nodes, with what to write instead.
var unsupported = map[string]string{
	"ImageDigestMirrorSet":     mirrorsInstead,
	"ImageTagMirrorSet":        mirrorsInstead,
	"ImageContentSourcePolicy": mirrorsInstead,
	"ClusterImagePolicy":       "write /etc/containers/policy.json in a Butane document",
	"ImagePolicy":              "write /etc/containers/policy.json in a Butane document",
}

const mirrorsInstead = "write the mirrors as a file below /etc/containers/registries.conf.d in a Butane document"

var (
	// mentions finds text that may be an object of ours, an unsupported one of the original, or a document that SOPS encrypted. Other
	// YAML in a plain directory is nobody's business.
	mentions = regexp.MustCompile(`(?m)\bkind["']?\s*:\s*["']?(MachineConfig|KubeletConfig|KubeletConfiguration|SSHKeys|ContainerRuntimeConfig|Image(DigestMirrorSet|TagMirrorSet|ContentSourcePolicy)|(Cluster)?ImagePolicy)\b|^["']?sops["']?\s*:`)
	// variantKey and versionKey begin every Butane document, whatever its file is called.
	variantKey = regexp.MustCompile(`(?m)^(?:\{\s*)?["']?variant["']?\s*:`)
	versionKey = regexp.MustCompile(`(?m)^["']?version["']?\s*:`)
)

// ours tells whether a YAML file of a plain directory declares a document. What cannot be read may.
func (b *builder) ours(name string) bool {
	src, err := b.read(name)
	if err != nil {
		return true
	}
	if !mentions.Match(src) && !(variantKey.Match(src) && versionKey.Match(src)) {
		return false
	}
	f := b.file(reference{name, name, origin.Pos{File: name}, true})
	return f != nil && (!f.foreign || f.almost)
}
