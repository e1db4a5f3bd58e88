package review

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
)

// Rendering is what one tree renders to, pool by pool, without a cluster.
type Rendering struct {
	// Pools in lexical order.
	Pools []PoolRendering
	// Err joins what stops pools from rendering; the other pools are there all the same.
	Err error
}

// PoolRendering is one pool of a Rendering.
type PoolRendering struct {
	// Rendered is the very config that the controller would make of these inputs.
	Rendered render.Rendered
	// Origins as in Pool.
	Origins map[string]string
}

// Render does offline what the controllers do: it selects each pool's fragments and merges them. Layers that others
// made through the cluster's API are not known here and not included.
func Render(res transpile.Result, r *render.Renderer, d render.Defaults) Rendering {
	var out Rendering
	var errs []error
	for _, pool := range transpile.AllPools(res) {
		selected, err := transpile.Select(res, pool)
		if err != nil {
			errs = append(errs, fmt.Errorf("selecting the fragments of pool %q: %w", pool, err))
			continue
		}
		rendered, err := r.Merge(pool, transpile.MachineConfigs(selected), d)
		if err != nil {
			errs = append(errs, fmt.Errorf("rendering pool %q: %w", pool, err))
			continue
		}
		out.Pools = append(out.Pools, PoolRendering{Rendered: rendered, Origins: origins(selected, rendered)})
	}
	out.Err = errors.Join(errs...)
	return out
}

// Side makes a side of a comparison.
func (r Rendering) Side(name string) Side {
	s := Side{Name: name, Pools: map[string]Pool{}}
	for _, p := range r.Pools {
		s.Pools[p.Rendered.Pool] = Pool{Rendered: p.Rendered.Name, Config: p.Rendered.Config, Origins: p.Origins}
	}
	return s
}

// origins finds for each item the fragment that set it last, and the line there. What no fragment set comes from a
// MachineConfig made through the API, and is named so.
func origins(fragments []transpile.Fragment, r render.Rendered) map[string]string {
	places := map[string]map[string]string{}
	for _, f := range fragments {
		places[f.Name] = within(f)
	}
	out := map[string]string{}
	for key, item := range items(r.Config) {
		winner := r.Winner(item.kind, item.name)
		lines, known := places[winner]
		if at, ok := lines[key]; ok {
			out[key] = at
		} else if !known && winner != "" {
			out[key] = "MachineConfig " + winner + ", made through the API"
		}
	}
	return out
}

// Explain renders the inputs of a config again and says who set each item: a line of one of the fragments, or a
// MachineConfig made through the API. same tells that the inputs give the very config of that name and spec.
func Explain(of *mcfgv1.MachineConfig, pool string, inputs []*mcfgv1.MachineConfig, fragments []transpile.Fragment) (places []Place, same bool, err error) {
	d := render.Defaults{OSImageURL: of.Spec.OSImageURL, ExtensionsImage: of.Spec.BaseOSExtensionsContainerImage}
	rendered, err := render.Merge(pool, inputs, d)
	if err != nil {
		return nil, false, fmt.Errorf("rendering the inputs of %s again: %w", of.Name, err)
	}
	p := PoolRendering{Rendered: rendered, Origins: origins(fragments, rendered)}
	return p.Places(), rendered.Name == of.Name, nil
}

// within finds the place of each item of one fragment.
func within(f transpile.Fragment) map[string]string {
	cfg, err := machineconfig.Parse(f.MachineConfig.Spec)
	if err != nil {
		return nil // transpile makes none that cannot be read
	}
	out := map[string]string{}
	for key, item := range items(cfg) {
		if pos, ok := f.Origin.Find(item.path); ok {
			out[key] = pos.String()
		}
	}
	return out
}

// item is a file, unit or user, and where it stands in its config.
type item struct {
	kind policy.ChangeKind
	name string
	path string
}

// items of a config by ItemKey.
func items(c machineconfig.Config) map[string]item {
	out := map[string]item{}
	add := func(kind policy.ChangeKind, name, list string, i int) {
		out[ItemKey(kind, name)] = item{kind, name, fmt.Sprintf("$.%s.%d", list, i)}
	}
	for i := range c.Ignition.Storage.Files {
		add(policy.KindFile, c.Ignition.Storage.Files[i].Path, "storage.files", i)
	}
	for i := range c.Ignition.Systemd.Units {
		add(policy.KindUnit, c.Ignition.Systemd.Units[i].Name, "systemd.units", i)
	}
	for i := range c.Ignition.Passwd.Users {
		add(policy.KindUser, c.Ignition.Passwd.Users[i].Name, "passwd.users", i)
	}
	return out
}

// Place is an item and the line that sets it.
type Place struct {
	// Item is the kind and name: `file /etc/chrony.conf`.
	Item string
	// At is `file:line:col`, or names the MachineConfig where that was made through the API.
	At string
}

// Places lists the origins in lexical order of the items.
func (p PoolRendering) Places() []Place {
	out := make([]Place, 0, len(p.Origins))
	for item, at := range p.Origins {
		out = append(out, Place{item, at})
	}
	slices.SortFunc(out, func(a, b Place) int { return strings.Compare(a.Item, b.Item) })
	return out
}
