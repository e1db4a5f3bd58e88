package lineage

import (
	"github.com/bunsen-os/bunsen/internal/disruption"
)

// Name is the kind and the name of an item. NamesOf does not read the values of items, so a list of all names is cheap.
type Name struct {
	// Kind is the kind of the item.
	Kind disruption.ChangeKind
	// Shown is the name with secrets masked, for example in a kernel argument. For a field outside of Ignition that is
	// one item, Shown is the value, such as the OS image.
	Shown string
	// key is the name by which a layer has the item.
	key entry
}

// Noun returns the words for the item's kind in a sentence, such as `kernel argument`.
func (n Name) Noun() string { return words(n.Kind) }

// NamesOf lists the names of all items in the order of their kinds, and within a kind by name.
func NamesOf(l *Lineage) []Name {
	var out []Name
	for _, e := range l.entries() {
		n := Name{Kind: e.kind, Shown: plain(e.name), key: e}
		if writes := l.plain[e]; e.name == "" && len(writes) > 0 {
			n.Shown = plain(writes[len(writes)-1].leaf.raw)
		}
		out = append(out, n)
	}
	return out
}

// Setters returns the layers that set an item of another lineage, in the order of merging. The list is empty if no
// layer sets the item.
func Setters(l *Lineage, n Name) []Layer {
	var out []Layer
	add := func(layer int) {
		if last := len(out) - 1; last < 0 || out[last].Name != l.layers[layer].Name ||
			out[last].OfNode != l.layers[layer].OfNode {
			out = append(out, l.layers[layer])
		}
	}
	for _, w := range l.plain[n.key] {
		add(w.layer)
	}
	for _, family := range families(n.Kind) {
		for _, t := range l.touched[key{family, n.key.name}] {
			if t.list.kind == n.Kind {
				add(t.layer)
			}
		}
	}
	return out
}
