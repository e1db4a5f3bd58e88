package lineage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Lineage has the layers of one pool, indexed by items. The cost of one item depends only on its own size, and that of
// all items on the size of the layers. It never changes.
type Lineage struct {
	layers  []Layer
	options Options
	// of an item in the layers' Ignition configs, in the order of merging
	touched map[key][]touch
	// of the fields outside of Ignition
	plain map[entry][]write
	// the sections `ignition` of the layers as they are written, also where another config replaces them
	sections []ign.Ignition
}

// key is an item's name in a list without duplicates.
type key struct{ family, name string }

type entry struct {
	kind disruption.ChangeKind
	name string
}

// New indexes layers in the order of merging: later ones override earlier ones. It does not copy them. If a layer's
// config merges another config, that one counts as a layer of the same name.
func New(layers []Layer, o Options) *Lineage {
	l := &Lineage{options: o, touched: map[key][]touch{}, plain: map[entry][]write{}}
	for i := range layers {
		l.sections = append(l.sections, layers[i].Config.Ignition.Ignition)
	}
	layers = withNested(layers)
	l.layers = layers
	for n := range layers {
		l.beside(n)
		if !layers[n].Config.HasIgnition {
			continue
		}
		for i := range lists {
			for index, name := range lists[i].keys(layers[n].Config.Ignition) {
				k := key{lists[i].family, name}
				l.touched[k] = append(l.touched[k], touch{n, &lists[i], index})
			}
		}
	}
	if kernel := (entry{disruption.KindKernelType, ""}); l.plain[kernel] == nil {
		if writes := defaultKernels(layers); writes != nil {
			l.plain[kernel] = writes
		}
	}
	return l
}

// withNested adds the configs that layers name as layers of their own. They are merged after all layers, in the order
// in which the layers name them. One that replaces the whole config removes the Ignition configs of all other layers.
func withNested(layers []Layer) []Layer {
	var nested, replacing []Layer
	for _, l := range layers {
		configs, err := machineconfig.NestedConfigs(l.Config)
		if err != nil {
			continue // The caller has checked that the layer is valid.
		}
		for _, n := range configs {
			more := Layer{Name: l.Name, Config: n.Config, Source: l.Source, Generated: l.Generated}
			if at, ok := l.Origin.Find(n.Path); ok {
				more.Origin = origin.Map{Files: l.Origin.Files, At: map[string]origin.Pos{"$": at}}
			}
			if nested = append(nested, more); n.Replaces {
				replacing = []Layer{more}
			}
		}
	}
	out := slices.Concat(layers, nested)
	if replacing == nil {
		return out
	}
	out = slices.Concat(layers, replacing)
	for i := range layers {
		out[i].Config.Ignition, out[i].Config.HasIgnition = ign.Config{}, false
	}
	return out
}

// defaultKernels count only if no layer sets another kernel.
func defaultKernels(layers []Layer) (out []write) {
	for n := range layers {
		if kernel := layers[n].Config.KernelType; kernel != "" {
			out = append(out, write{n, "spec.kernelType", leaf{name: "kernelType", raw: kernel}})
		}
	}
	return out
}

// beside indexes a layer's fields outside of Ignition by the renderer's rules: FIPS is on if any layer sets it, the
// last kernel that is not the default wins, and images of generated configs do not count.
func (l *Lineage) beside(n int) {
	c := l.layers[n].Config
	set := func(kind disruption.ChangeKind, name, attribute, path, value string) {
		e := entry{kind, name}
		l.plain[e] = append(l.plain[e], write{n, path, leaf{name: attribute, raw: value}})
	}
	for i, argument := range c.KernelArguments {
		for _, a := range machineconfig.SplitKargs([]string{argument}) {
			set(disruption.KindKargs, a, "argument", fmt.Sprintf("spec.kernelArguments.%d", i), a)
		}
	}
	for i, e := range c.Extensions {
		set(disruption.KindExtensions, e, "extension", fmt.Sprintf("spec.extensions.%d", i), e)
	}
	if c.FIPS {
		set(disruption.KindFIPS, "", "fips", "spec.fips", "true")
	}
	if c.KernelType != "" && c.KernelType != "default" {
		set(disruption.KindKernelType, "", "kernelType", "spec.kernelType", c.KernelType)
	}
	if c.OSImageURL != "" && !l.layers[n].Generated {
		set(disruption.KindOSImage, "", "osImageURL", "spec.osImageURL", c.OSImageURL)
	}
	if c.ExtensionsImage != "" && !l.layers[n].Generated {
		set(KindExtensionsImage, "", "extensionsImage", "spec.baseOSExtensionsContainerImage", c.ExtensionsImage)
	}
}

// Last returns which layer set an item last, and where the item begins there; false if none does. It is for a kind and
// name of disruption.Changes, agrees with render's Winner, and reads no values.
func (l *Lineage) Last(kind disruption.ChangeKind, name string) (last Writer, ok bool) {
	if kind == disruption.KindIgnition {
		for n, section := range slices.Backward(l.sections) {
			if slices.Contains(disruption.IgnitionParts(section), name) {
				return l.begins(n, "$.ignition."+name), true
			}
		}
		return Writer{}, false
	}
	if writes := l.plain[entry{kind, name}]; writes != nil {
		w := writes[len(writes)-1]
		return l.begins(w.layer, w.path), true
	}
	for _, family := range families(kind) {
		touches := l.touched[key{family, name}]
		if len(touches) == 0 {
			continue
		}
		if t := touches[len(touches)-1]; t.list.kind == kind && t.layer >= last.layer {
			last, ok = l.begins(t.layer, t.list.root(t.index)), true
		}
	}
	return last, ok
}

// Explain returns the lineage of one item, by a kind and name of disruption.Changes and of render's Winner; a kind
// without a name means all kernel arguments, all extensions or the whole section `ignition`, in order. For a path, the
// kinds file, directory and link are equal. The error is an *UnknownError, which suggests other names.
func (l *Lineage) Explain(kind disruption.ChangeKind, name string) (Item, error) {
	if name == "" && (kind == disruption.KindKargs || kind == disruption.KindExtensions) {
		if item := l.list(kind); len(item.Attributes) > 0 {
			return item, nil
		}
		return Item{}, l.unknown(kind, name)
	}
	if writes := l.plain[entry{kind, name}]; writes != nil {
		return l.plainItem(entry{kind, name}, writes), nil
	}
	if kind == disruption.KindIgnition && name != "" {
		whole, err := l.Explain(kind, "")
		if part, ok := whole.part(name); ok && err == nil {
			return part, nil
		}
		return Item{}, l.unknown(kind, name)
	}
	var out Item
	for _, family := range families(kind) {
		if touches := l.touched[key{family, name}]; touches != nil {
			out = joined(out, l.item(name, l.fold(touches)))
		}
	}
	if out.Kind == "" {
		return Item{}, l.unknown(kind, name)
	}
	return out, nil
}

// families lists the families of those lists that have items of a kind.
func families(kind disruption.ChangeKind) (out []string) {
	for _, x := range lists {
		if x.kind == kind && !slices.Contains(out, x.family) {
			out = append(out, x.family)
		}
	}
	return out
}

// joined joins the parts of a storage device with one name: a disk and the file system on it.
func joined(a, b Item) Item {
	if a.Kind == "" {
		return b
	}
	a.Attributes = append(a.Attributes, b.Attributes...)
	a.Writers = append(a.Writers, b.Writers...)
	slices.SortStableFunc(a.Writers, func(x, y Writer) int { return cmp.Compare(x.layer, y.layer) })
	return a
}

// list returns all kernel arguments or extensions, numbered in order.
func (l *Lineage) list(kind disruption.ChangeKind) Item {
	item := Item{Kind: kind}
	for n, layer := range l.layers {
		said, path, name := layer.Config.Extensions, "spec.extensions.%d", "extensions.%d"
		if kind == disruption.KindKargs {
			said, path, name = layer.Config.KernelArguments, "spec.kernelArguments.%d", "kernelArguments.%d"
		}
		for i, x := range said {
			parts := []string{x}
			if kind == disruption.KindKargs {
				parts = machineconfig.SplitKargs(parts)
			}
			for _, part := range parts {
				w := write{n, fmt.Sprintf(path, i), leaf{raw: part}}
				item.Attributes = append(item.Attributes, Attribute{
					Name:   fmt.Sprintf(name, len(item.Attributes)),
					Writer: l.writer(w, kind, ""),
				})
			}
		}
		if len(said) > 0 {
			item.Writers = append(item.Writers, l.begins(n, fmt.Sprintf(path, 0)))
		}
	}
	return item
}

// order is that of the kinds in entries.
var order = []disruption.ChangeKind{
	disruption.KindFile, disruption.KindDirectory, disruption.KindLink, disruption.KindUnit, disruption.KindUser,
	disruption.KindGroup,
	disruption.KindStorage,
	disruption.KindKargs, disruption.KindFirstBootKargs, disruption.KindKernelType, disruption.KindExtensions,
	KindExtensionsImage,
	disruption.KindOSImage,
	disruption.KindFIPS, disruption.KindIgnition,
}

// Name is the kind and the name of an item. NamesOf does not read the values of items, so a list of all names is cheap.
type Name struct {
	Kind disruption.ChangeKind
	// Name as the layers have it, which may contain a secret; empty for kinds with only one item.
	Name string
	// Shown is the name with secrets masked, for example in a kernel argument; for a single field outside of Ignition
	// the value, such as the OS image.
	Shown string
}

// Noun returns the words for the item's kind in a sentence, such as `kernel argument`.
func (n Name) Noun() string { return words(n.Kind) }

// NamesOf lists the names of all items in the order of their kinds, and within a kind by name.
func (l *Lineage) NamesOf() []Name {
	var out []Name
	for _, e := range l.entries() {
		n := Name{Kind: e.kind, Name: e.name, Shown: plain(e.name)}
		if writes := l.plain[e]; e.name == "" && len(writes) > 0 {
			n.Shown = plain(writes[len(writes)-1].leaf.raw)
		}
		out = append(out, n)
	}
	return out
}

// Setters returns the layers that set an item of another lineage, in the order of merging; none if no layer does.
func (l *Lineage) Setters(n Name) []Layer {
	var out []Layer
	add := func(layer int) {
		if last := len(out) - 1; last < 0 || out[last].Name != l.layers[layer].Name ||
			out[last].OfNode != l.layers[layer].OfNode {
			out = append(out, l.layers[layer])
		}
	}
	for _, w := range l.plain[entry{n.Kind, n.Name}] {
		add(w.layer)
	}
	for _, family := range families(n.Kind) {
		for _, t := range l.touched[key{family, n.Name}] {
			if t.list.kind == n.Kind {
				add(t.layer)
			}
		}
	}
	return out
}

func (l *Lineage) item(name string, f folded) Item {
	out := Item{Kind: f.list.kind, Name: name}
	for _, t := range f.trails {
		t.leaf.name = f.list.prefix + t.leaf.name
		a := Attribute{Name: t.leaf.name, Writer: l.writer(t.write, out.Kind, name)}
		_, a.Content = l.options.shown(t.leaf, out.Kind, name)
		for _, w := range t.replaced {
			a.Replaced = append(a.Replaced, l.writer(w, out.Kind, name))
		}
		out.Attributes = append(out.Attributes, a)
	}
	slices.SortStableFunc(out.Attributes, func(a, b Attribute) int { return cmp.Compare(rank(a.Name), rank(b.Name)) })
	out.Writers = l.touchers(f.touches)
	out.Displaced = l.touchers(f.displaced)
	for i, t := range f.displaced {
		out.Displaced[i].Value = string(t.list.kind)
	}
	out.Defaults = defaults(out)
	return out
}

// plainItem returns an item outside of Ignition.
func (l *Lineage) plainItem(e entry, writes []write) Item {
	out := Item{Kind: e.kind, Name: e.name}
	last := writes[len(writes)-1]
	a := Attribute{Name: last.leaf.name, Writer: l.writer(last, e.kind, e.name)}
	for i, w := range writes {
		if i < len(writes)-1 {
			a.Replaced = append(a.Replaced, l.writer(w, e.kind, e.name))
		}
		out.Writers = append(out.Writers, l.begins(w.layer, w.path))
	}
	out.Attributes = []Attribute{a}
	return out
}

// touchers are the layers that set an item, with its position in each.
func (l *Lineage) touchers(touches []touch) (out []Writer) {
	for _, t := range touches {
		root := t.list.root(t.index)
		if _, ok := l.layers[t.layer].Origin.At[root]; !ok && t.list.key != "version" {
			root += "." + t.list.key // Some documents have a position only for the item's name.
		}
		out = append(out, l.begins(t.layer, root))
	}
	return out
}

// begins returns the writer at a position, without a value.
func (l *Lineage) begins(layer int, path string) Writer {
	at, _ := l.layers[layer].Origin.Find(path)
	return Writer{Layer: l.layers[layer].Name, Source: l.layers[layer].Source, At: Place{at}, layer: layer}
}

func (l *Lineage) writer(w write, kind disruption.ChangeKind, name string) Writer {
	out := l.begins(w.layer, w.path)
	out.Value, _ = l.options.shown(w.leaf, kind, name)
	if w.leaf.resource != nil || kind == disruption.KindUnit &&
		(w.leaf.name == "contents" || strings.HasPrefix(w.leaf.name,
			"dropins.")) {
		out.content = decoded(w.leaf)
	}
	return out
}

// part is a named part of an item, such as `config.merge`.
func (i Item) part(name string) (Item, bool) {
	out := Item{Kind: i.Kind, Name: name}
	layers := map[int]bool{}
	for _, a := range i.Attributes {
		if a.Name != name && !strings.HasPrefix(a.Name, name+".") {
			continue
		}
		out.Attributes = append(out.Attributes, a)
		layers[a.layer] = true
		for _, w := range a.Replaced {
			layers[w.layer] = true
		}
	}
	for _, w := range i.Writers {
		if layers[w.layer] {
			out.Writers = append(out.Writers, w)
		}
	}
	return out, len(out.Attributes) > 0
}

// defaults are the values that a node has if no document sets them.
func defaults(i Item) (out []Default) {
	add := func(name, value string) {
		if !slices.ContainsFunc(i.Attributes, func(a Attribute) bool { return a.Name == name }) {
			out = append(out, Default{name, value})
		}
	}
	switch i.Kind {
	case disruption.KindFile:
		add("mode", "0644")
	case disruption.KindDirectory:
		add("mode", "0755")
	case disruption.KindUnit:
		add("enabled", "unchanged; a new unit gets its preset")
	}
	if i.Kind == disruption.KindFile || i.Kind == disruption.KindDirectory || i.Kind == disruption.KindLink {
		add("user", "root")
		add("group", "root")
	}
	return out
}

// first: others follow in the order of Ignition's fields.
var first = []string{"contents", "append", "enabled", "mask", "dropins", "target", "mode", "user", "group"}

func rank(name string) int {
	head, _, _ := strings.Cut(name, ".")
	if i := slices.Index(first, head); i >= 0 {
		return i
	}
	return len(first)
}
