package documents

import (
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Declaration has the facts about a file that declares a document: its kind, its name and its content.
type Declaration struct {
	Info     Info
	Name     string
	Findings []origin.Finding
	// Broken is true if the file contains no valid document.
	Broken bool
	// Named is true if the object has its own name.
	Named bool
	// Foreign is true for YAML of a kind that Bunsen does not read. isNear is true if only the version of the kind is
	// wrong.
	Foreign, isNear bool
	// rewritten is true if the parsed tree, written as YAML, has another notation of a value than the file.
	rewritten bool
}

// File is one file that declares a document. Nobody changes it once File has returned it, because the builds that share
// a cache share it.
type File struct {
	Declaration
	Path string
	src  []byte
	// Unchanged is the document without any patch.
	Unchanged Document
}

// Cache has what files declare, from earlier builds: this depends on nothing but the path and the contents. It may
// forget any, and is used by several goroutines.
type Cache interface {
	// Declared returns the file with this path and this digest of its contents, or nil.
	Declared(path, digest string) *File
	// Keep stores a file under the digest of its contents.
	Keep(f *File, digest string)
}

// Size returns approximately how many bytes of memory a file needs.
func (f *File) Size() int {
	const entry = 100 // for a position, besides its path
	size := 500 + len(f.src) + len(f.Unchanged.Source)
	for p := range f.Unchanged.Origin.At {
		size += entry + len(p)
	}
	for _, found := range f.Findings {
		size += entry + len(found.Message)
	}
	return size
}

// File reads the document of a file once in a build. File returns nil if the file cannot be read.
func (all *Files) File(from Reference) *File {
	name := from.Path
	if known, ok := all.known[name]; ok {
		return known
	}
	all.known[name] = nil
	src, err := all.Read(name)
	if err != nil {
		all.Add(Unreadable(from.At, name, from.Written, err))
		return nil
	}
	file := all.declared(name, src)
	all.known[name] = file
	if !file.Foreign {
		all.Declared = append(all.Declared, file)
		all.Add(file.Findings...)
	}
	return file
}

// declared returns what a file declares, from the cache or from its contents.
func (all *Files) declared(name string, src []byte) *File {
	digest := all.Reads[name]
	if all.Cache != nil {
		if known := all.Cache.Declared(name, digest); known != nil {
			return known
		}
	}
	file := &File{Path: name, src: src}
	var root *yaml.Node
	file.Declaration, root = Declare(name, src)
	if !file.Foreign && !file.Broken {
		all.keepUnchanged(file, root)
	}
	if all.Cache != nil {
		all.Cache.Keep(file, digest)
	}
	return file
}

// keepUnchanged stores the document without any patch. The Source of the stored document is the file's own text if this
// text has the same content.
func (all *Files) keepUnchanged(f *File, root *yaml.Node) {
	if f.Info.Wrapped {
		root = f.Info.Content(root)
	}
	src, err := f.src, error(nil)
	if verbatim := f.Info.Kind == Ignition || f.Info.Kind == Butane && !f.rewritten; !verbatim {
		src, err = Encode(root)
	}
	if err != nil {
		f.Broken = true
		f.add(origin.Errorf(origin.Pos{File: f.Path}, "kustomize", "%v", err))
		return
	}
	f.Unchanged = all.Document(f, f.Name, src, Positions{Files: YAMLFiles{f.Path}}.Of(root))
}

// Object parses the document for patches. Object returns a new tree with the positions of keys.
func (f *File) Object() *yaml.Node {
	_, root := Declare(f.Path, f.src)
	YAMLText{File: f.Path}.MoveToKeys(root)
	return root
}

// Declare reads a file's document as the object that kustomize receives.
func Declare(name string, src []byte) (Declaration, *yaml.Node) {
	t := YAMLText{File: name, Src: src}
	root, fs := t.Parse()
	d := Declaration{Findings: fs, Broken: true, Name: Stem(name)}
	switch {
	case path.Ext(name) == IgnitionExt:
		d.Info, _ = Ignition.Info()
	case IsButane(name):
		d.Info, _ = Butane.Info()
	}
	if root == nil {
		return d, nil
	}
	if root.Kind != yaml.MappingNode {
		d.add(origin.Errorf(t.Pos(root), "document", "a document is a mapping that begins with `variant:` and "+
			"`version:`"))
		return d, nil
	}
	if k, v := Field(root, "sops"); v != nil && v.Kind == yaml.MappingNode {
		d.Foreign = d.Info.Kind == "" && isData(root)
		d.add(origin.Errorf(t.Pos(k), "encrypted", "SOPS encrypted the document, and a review could not read it: "+
			"encrypt only files with secrets, and include each with `contents: {local: …}`"))
		return d, nil
	}
	info, object := KindOf(root)
	switch {
	case d.Info.Kind == Ignition:
		root = d.Info.Wrap(d.Name, root)
		d.ignition(t, root)
	case Scalar(root, "variant") != "" || d.Info.Kind == Butane:
		d.Info, _ = Butane.Info()
		root = d.Info.Wrap(d.Name, root)
		d.butane(t, root)
	case object:
		d.Info = info
		d.object(t, root)
	default:
		d.Foreign = true
		_, d.isNear = Kind(Scalar(root, "kind")).Info()
		d.add(origin.Errorf(t.Pos(root), "kind", "this is %[2]s, and a pool consists of Butane documents, Ignition "+
			"configs (*.ign), and objects of kind %[1]s; cluster objects belong into cluster/", ObjectKinds(),
			describe(root)))
	}
	d.Broken = origin.Fatal(d.Findings)
	return d, root
}

func (d *Declaration) add(fs ...origin.Finding) { d.Findings = append(d.Findings, fs...) }

// ObjectKinds lists the kinds that are objects, with their versions.
func ObjectKinds() string {
	var out []string
	for _, k := range kinds {
		if !k.Wrapped {
			out = append(out, string(k.Kind)+" ("+k.Group+"/"+k.Version+")")
		}
	}
	return strings.Join(out, ", ")
}

// describe returns how messages name an object.
func describe(root *yaml.Node) string {
	kind := Scalar(root, "kind")
	if kind == "" {
		return "neither"
	}
	if _, known := Kind(kind).Info(); known {
		return "a " + kind + " of " + Scalar(root, "apiVersion")
	}
	return "a " + kind
}

// Stem is a file's name without directory and extension.
func Stem(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }

func (d *Declaration) butane(t YAMLText, root *yaml.Node) {
	content := d.Info.Content(root)
	d.add(CheckShapes(t, content, butaneLists)...)
	d.add(CheckLists(t, content, butaneLists, false)...)
	d.add(checkPaths(t, content)...)
	l := localPaths{YAMLText: t}
	d.add(l.walk(content)...)
	d.rewritten = QuoteScalars(content, "") || l.changed
}

// checkPaths finds a path that is both a file, a directory or a link.
func checkPaths(t YAMLText, root *yaml.Node) []origin.Finding {
	var out []origin.Finding
	seen := map[string]List{}
	lines := map[string]int{}
	for _, l := range butaneLists[:3] {
		for _, key := range NodesBelow(root, strings.Split(l.Path+".path", ".")) {
			if other, twice := seen[key.Value]; twice && other != l {
				out = append(out, origin.Errorf(t.Pos(key), "duplicate-item", "path %q stands in %s in line %d and "+
					"in %s in line %d; keep one", key.Value, other.Path, lines[key.Value], l.Path, key.Line+t.Offset))
			}
			seen[key.Value], lines[key.Value] = l, key.Line+t.Offset
		}
	}
	return out
}

// ignition refuses lists that kustomize cannot merge. ignition accepts repeated paths in configs of Ignition 2, because
// patches cannot change such a config: checkMerge refuses that.
func (d *Declaration) ignition(t YAMLText, root *yaml.Node) {
	content := d.Info.Content(root)
	d.add(CheckShapes(t, content, ignitionLists)...)
	if !IsIgnition2(content) {
		d.add(CheckLists(t, content, ignitionLists, false)...)
	}
}

// IsIgnition2 reports whether an Ignition config has a version before 3.
func IsIgnition2(content *yaml.Node) bool {
	return strings.HasPrefix(Scalar(content, "ignition", "version"), "2.")
}

func (d *Declaration) object(t YAMLText, root *yaml.Node) {
	content := d.Info.Content(root)
	switch {
	case content == nil || content.Tag == "!!null":
		d.add(origin.Errorf(t.Pos(root), "document", "the %s has no spec", d.Info.Kind))
		return
	case content.Kind != yaml.MappingNode:
		d.add(origin.Errorf(t.Pos(content), "shape", "spec is a mapping of fields, not a list or a single value"))
		return
	}
	d.add(CheckShapes(t, content, d.Info.Lists)...)
	d.add(CheckLists(t, content, d.Info.Lists, false)...)
	_, meta := Field(root, "metadata")
	switch name := Scalar(meta, "name"); {
	case meta != nil && meta.Kind != yaml.MappingNode:
		d.add(origin.Errorf(t.Pos(meta), "shape", "metadata is a mapping of fields, not a list or a single value"))
	case name != "":
		d.Name, d.Named = name, true
	case d.Info.Kind != KubeletConfiguration:
		d.add(origin.Errorf(t.Pos(root), "document", "the %s has no metadata.name", d.Info.Kind))
	}
	for _, key := range []string{"labels", "annotations"} {
		if _, v := Field(meta, key); v != nil && v.Kind != yaml.MappingNode && v.Tag != "!!null" {
			d.add(origin.Errorf(t.Pos(v), "shape", "metadata.%s is a mapping of fields, not a list or a single value",
				key))
		}
	}
}

var (
	// mentions matches text that may be an object of a known kind of the Machine Config Operator, or a
	// document that SOPS encrypted. In a directory without a kustomization, Bunsen ignores YAML files that mentions
	// does not match.
	mentions = regexp.MustCompile(
		`(?m)\bkind["']?\s*:\s*["']?(MachineConfig|KubeletConfig|KubeletConfiguration|SSHKeys|ContainerRuntimeConfig|Image(DigestMirrorSet|TagMirrorSet|ContentSourcePolicy)|(Cluster)?ImagePolicy)\b|^["']?sops["']?\s*:`)
	// variantKey and versionKey match the keys that every Butane document has, whatever the name of its file.
	variantKey = regexp.MustCompile(`(?m)^(?:\{\s*)?["']?variant["']?\s*:`)
	versionKey = regexp.MustCompile(`(?m)^["']?version["']?\s*:`)
)

// isData reports whether an encrypted file has none of the keys with which documents begin.
func isData(root *yaml.Node) bool {
	for _, key := range []string{"variant", "kind", "apiVersion"} {
		if _, v := Field(root, key); v != nil {
			return false
		}
	}
	return true
}

// sopsKey matches the metadata of a YAML file that SOPS encrypted.
var sopsKey = regexp.MustCompile(`(?m)^["']?sops["']?\s*:`)

// IsEncrypted reports whether SOPS encrypted a YAML file. Documents may include an encrypted file.
func (all *Files) IsEncrypted(name string) bool {
	src, err := all.Read(name)
	return err == nil && sopsKey.Match(src)
}

// MayDeclare reports whether a YAML file may declare a document. MayDeclare returns true for a file that cannot be
// read.
func (all *Files) MayDeclare(name string) bool {
	src, err := all.Read(name)
	if err != nil {
		return true
	}
	if !mentions.Match(src) && !(variantKey.Match(src) && versionKey.Match(src)) {
		return false
	}
	file := all.File(Reference{name, name, origin.Pos{File: name}, true})
	return file != nil && (!file.Foreign || file.isNear)
}
