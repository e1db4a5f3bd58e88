package lineage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

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
