package overlay

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// resource lets one file in: a plain Butane document, wrapped, or a MachineConfig. from is where it is named.
func (b *builder) resource(file string, from origin.Pos) {
	if b.visited[file] {
		return
	}
	b.visited[file] = true
	src, err := b.read(file)
	if err != nil {
		b.add(fatal(from, "missing", "%q: %s", file, plain(err)))
		return
	}
	t := text{file: file, src: src}
	root, fs := t.parse()
	b.add(fs...)
	if root == nil {
		return
	}
	if root.Kind != yaml.MappingNode {
		b.add(fatal(t.pos(root), "document", "a document is a mapping that begins with `variant:` and `version:`"))
		return
	}
	var name string
	is := MachineConfig
	switch kind := scalarAt(root, "kind"); {
	case scalarAt(root, "variant") != "" || IsButane(file):
		name, is = stem(file), Butane
		root = b.butane(t, root, name)
	case kind == machineConfigKind && scalarAt(root, "apiVersion") == machineConfigGroup+"/"+machineConfigVersion:
		name = scalarAt(root, "metadata", "name")
		b.machineConfig(t, root)
	default:
		b.add(fatal(t.pos(root), "kind", "a pool is made of Butane documents and MachineConfigs (%s/%s), and this is %s; cluster objects belong into cluster/", machineConfigGroup, machineConfigVersion, orNothing(kind)))
		return
	}
	b.declared[name] = append(b.declared[name], file)
	b.kinds[declaration{is, name}] = true
	b.write(file, root)
}

func orNothing(kind string) string {
	if kind == "" {
		return "neither"
	}
	return "a " + kind
}

// stem is a file's name without directory and extension.
func stem(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }

func (b *builder) butane(t text, root *yaml.Node, name string) *yaml.Node {
	b.add(t.checkShapes(root, butaneLists)...)
	b.add(t.checkLists(root, butaneLists, false)...)
	b.add(t.checkPaths(root)...)
	b.add(t.localize(root)...)
	quote(root, "")
	b.mark(t, root, "")
	return wrap(name, t.file, root)
}

func (b *builder) machineConfig(t text, root *yaml.Node) {
	k, spec := field(root, "spec")
	if spec == nil || spec.Kind != yaml.MappingNode {
		b.add(fatal(t.pos(root), "document", "the MachineConfig has no spec"))
		return
	}
	b.add(t.checkShapes(spec, machineConfigLists)...)
	b.add(t.checkLists(spec, machineConfigLists, false)...)
	if scalarAt(root, "metadata", "name") == "" {
		b.add(fatal(t.pos(root), "document", "the MachineConfig has no metadata.name"))
		return
	}
	_, meta := field(root, "metadata")
	_, annotations := field(meta, "annotations")
	if annotations == nil || annotations.Kind != yaml.MappingNode {
		annotations = mapping()
		set(meta, "annotations", annotations)
	}
	set(annotations, fileAnnotation, str(t.file))
	b.mark(t, spec, "")
	// The spec as a whole is written where its key stands.
	p := t.pos(k)
	b.items[item{t.file, "spec"}] = p
}
