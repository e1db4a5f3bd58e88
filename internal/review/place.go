package review

import (
	"slices"
	"strings"
	"sync"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
)

// Place is an item and the line that sets it.
type Place struct {
	// Item is kind and name: `file /etc/chrony.conf`.
	Item string
	// At is `file:line:col`, or the MachineConfig that a user created through the API.
	At string
	// Foreign is the name of the MachineConfig if it is not of this repository; otherwise empty.
	Foreign string
}

// places finds where the repository sets items of a rendered config. It indexes the layers when the first item is asked
// for: a review needs only changed ones.
type places struct {
	fragments []transpile.Fragment
	lineage   func() *lineage.Lineage
	// pool has the places of the layer poolLayer, for the config of a single node; otherwise nil.
	pool      *places
	poolLayer string
}

func newPlaces(fragments []transpile.Fragment, r render.Rendered) *places {
	return &places{fragments: fragments, lineage: sync.OnceValue(func() *lineage.Lineage {
		return lineage.New(lineage.LayersOfRendered(r, fragments), lineage.Options{Pool: r.Pool})
	})}
}

// ofNode is for the config of a node. A document of the node, or one that uses facts, overrides those of the pool.
func (p *places) ofNode(r render.Rendered, node string) *places {
	all, own := slices.Clone(p.fragments), []transpile.Fragment(nil)
	for _, f := range p.fragments {
		for _, d := range f.Documents {
			switch d.Node {
			case "":
				all = append(all, d)
			case node:
				own = append(own, d)
			}
		}
	}
	of := newPlaces(append(all, own...), r)
	of.pool, of.poolLayer = p, r.VariantOf
	return of
}

// last returns the fragment or the MachineConfig that set an item last. In the config of a single node, the config of
// its pool is one layer.
func (p *places) last(kind disruption.ChangeKind, name string) (lineage.Writer, bool) {
	last, ok := p.lineage().Last(kind, name)
	if ok && p.pool != nil && last.Layer == p.poolLayer {
		return p.pool.last(kind, name)
	}
	return last, ok
}

// of returns where the last fragment set an item, or the MachineConfig that a user created through the API.
func (p *places) of(kind disruption.ChangeKind, name string) string {
	last, ok := p.last(kind, name)
	if ok && last.Source == "" {
		return "MachineConfig " + last.Layer + ", made through the API"
	}
	return last.At.String()
}

// all lists the origins of all files, units and users, in lexical order.
func (p *places) all() []Place {
	var out []Place
	for _, n := range p.lineage().NamesOf() {
		switch n.Kind {
		case disruption.KindFile, disruption.KindUnit, disruption.KindUser:
			if at := p.of(n.Kind, n.Name); at != "" {
				place := Place{Item: string(n.Kind) + " " + n.Name, At: at}
				if last, ok := p.last(n.Kind, n.Name); ok && last.Source == "" {
					place.Foreign = last.Layer
				}
				out = append(out, place)
			}
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return strings.Compare(a.Item, b.Item) })
	return out
}

func (p *places) rowOf(node string) string {
	for _, f := range p.fragments {
		if at, ok := f.Nodes[node]; ok {
			return at.String()
		}
	}
	return ""
}

// explain returns who wrote each attribute of an item, with contents hidden.
func (p *places) explain(kind disruption.ChangeKind, name string) (lineage.Item, bool) {
	item, err := p.lineage().Explain(kind, name)
	return item, err == nil
}
