package review

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bunsen-os/bunsen/api/machineconfig"
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
}

// places finds where the repository sets items of a rendered config. It reads a fragment when the first of its items is
// asked for: a review needs only changed ones.
type places struct {
	rendered  render.Rendered
	fragments func() map[string]transpile.Fragment
	lineage   func() *lineage.Lineage

	mu   sync.Mutex
	read map[string]map[item]string
}

type item struct {
	kind disruption.ChangeKind
	name string
}

func newPlaces(fragments []transpile.Fragment, r render.Rendered) *places {
	return &places{
		rendered: r, read: map[string]map[item]string{},
		fragments: sync.OnceValue(func() map[string]transpile.Fragment {
			named := make(map[string]transpile.Fragment, len(fragments))
			for _, f := range fragments {
				named[f.Name] = f
			}
			return named
		}), lineage: sync.OnceValue(func() *lineage.Lineage {
			return lineage.New(lineage.LayersOfRendered(r, fragments), lineage.Options{Pool: r.Pool})
		}),
	}
}

// of returns where the last fragment set an item, or the MachineConfig that a user created through the API.
func (p *places) of(i item) string {
	winner := p.rendered.Winner(i.kind, i.name)
	if winner == "" {
		return ""
	}
	f, known := p.fragments()[winner]
	if !known {
		return "MachineConfig " + winner + ", made through the API"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read[winner] == nil {
		p.read[winner] = within(f)
	}
	return p.read[winner][i]
}

func (p *places) rowOf(node string) string {
	for _, f := range p.fragments() {
		if at, ok := f.Nodes[node]; ok {
			return at.String()
		}
	}
	return ""
}

// Origin returns where the repository sets an item, for Pool.Origin.
func (p PoolRendering) Origin(kind disruption.ChangeKind, name string) string {
	if p.places == nil {
		return ""
	}
	return p.places.of(item{kind, name})
}

// Lineage returns who wrote each attribute of an item, with contents hidden, for Pool.Lineage.
func (p PoolRendering) Lineage(kind disruption.ChangeKind, name string) (lineage.Item, bool) {
	if p.places == nil || p.places.lineage() == nil {
		return lineage.Item{}, false
	}
	item, err := p.places.lineage().Explain(kind, name)
	return item, err == nil
}

// Places lists the origins of all files, units and users, in lexical order.
func (p PoolRendering) Places() []Place { return p.placesBy(p.Origin) }

func (p PoolRendering) placesBy(origin func(disruption.ChangeKind, string) string) []Place {
	var out []Place
	for i := range items(p.Rendered.Config) {
		switch i.kind {
		case disruption.KindFile, disruption.KindUnit, disruption.KindUser:
			if at := origin(i.kind, i.name); at != "" {
				out = append(out, Place{string(i.kind) + " " + i.name, at})
			}
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return strings.Compare(a.Item, b.Item) })
	return out
}

func within(f transpile.Fragment) map[item]string {
	out := map[item]string{}
	cfg, err := machineconfig.Parse(f.MachineConfig.Spec)
	if err != nil {
		return out // The transpiler creates only fragments that can be read.
	}
	for i, path := range items(cfg) {
		if pos, ok := f.Origin.Find(path); ok {
			out[i] = pos.String()
		}
	}
	return out
}

// items returns the items of a config, each with its path in transpile's origins.
func items(c machineconfig.Config) map[item]string {
	out := map[item]string{}
	st, pw := c.Ignition.Storage, c.Ignition.Passwd
	put(out, disruption.KindFile, "$.storage.files", st.Files)
	put(out, disruption.KindDirectory, "$.storage.directories", st.Directories)
	put(out, disruption.KindLink, "$.storage.links", st.Links)
	put(out, disruption.KindStorage, "$.storage.disks", st.Disks)
	put(out, disruption.KindStorage, "$.storage.filesystems", st.Filesystems)
	put(out, disruption.KindStorage, "$.storage.raid", st.Raid)
	put(out, disruption.KindStorage, "$.storage.luks", st.Luks)
	put(out, disruption.KindUnit, "$.systemd.units", c.Ignition.Systemd.Units)
	put(out, disruption.KindUser, "$.passwd.users", pw.Users)
	put(out, disruption.KindGroup, "$.passwd.groups", pw.Groups)
	for i, entry := range c.KernelArguments {
		for _, k := range machineconfig.SplitKargs([]string{entry}) {
			out[item{disruption.KindKargs, k}] = fmt.Sprintf("spec.kernelArguments.%d", i)
		}
	}
	for i, e := range c.Extensions {
		out[item{disruption.KindExtensions, e}] = fmt.Sprintf("spec.extensions.%d", i)
	}
	for _, part := range disruption.IgnitionParts(c.Ignition.Ignition) {
		out[item{disruption.KindIgnition, part}] = "$.ignition." + part
	}
	nested, _ := machineconfig.NestedConfigs(c) // After an error, nested items have no position of their own.
	for _, n := range nested {
		for i := range items(n.Config) {
			if i.name != "" {
				out[i] = n.Path
			}
		}
	}
	out[item{disruption.KindKernelType, ""}] = "spec.kernelType"
	out[item{disruption.KindOSImage, ""}] = "spec.osImageURL"
	out[item{disruption.KindFIPS, ""}] = "spec.fips"
	out[item{disruption.KindFirstBootKargs, ""}] = "$.kernelArguments"
	return out
}

func put[T interface{ Key() string }](out map[item]string, kind disruption.ChangeKind, list string, all []T) {
	for i := range all {
		out[item{kind, all[i].Key()}] = fmt.Sprintf("%s.%d", list, i)
	}
}
