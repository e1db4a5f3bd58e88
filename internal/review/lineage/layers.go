package lineage

import (
	"fmt"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
	transpilekinds "github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// generatedBy marks a MachineConfig that a controller of the cluster wrote.
const generatedBy = "machineconfiguration.openshift.io/generated-by-controller-version"

// LayersOf returns MachineConfigs in the order of merging, with the origins of fragments. MachineConfigs without an
// origin were created through the API. LayersOf returns an error that names an invalid MachineConfig.
func LayersOf(mcs []*mcfgv1.MachineConfig, fragments []transpile.Fragment) ([]Layer, error) {
	known := byName(fragments)
	var out []Layer
	for _, mc := range render.Order(mcs) {
		if machineconfig.PoolOf(mc) != "" {
			continue // It is about single nodes, and no node gets its file.
		}
		spec, err := transpilekinds.UpgradeSpec(mc.Spec)
		if err != nil {
			return nil, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
		}
		config, err := machineconfig.Parse(spec)
		if err != nil {
			return nil, fmt.Errorf("reading MachineConfig %s: %w", mc.Name, err)
		}
		layer := Layer{Name: mc.Name, Config: config}
		_, layer.Generated = mc.Annotations[generatedBy]
		out = append(out, known.place(layer))
	}
	return out, nil
}

// LayersOfRendered returns the layers of a rendered config without parsing the MachineConfigs again.
func LayersOfRendered(r render.Rendered, fragments []transpile.Fragment) []Layer {
	known := byName(fragments)
	var out []Layer
	for _, l := range r.Layers() {
		out = append(out, known.place(Layer{Name: l.Name, Config: l.Config, Generated: l.Generated}))
	}
	return out
}

// fragmentsByName maps the names of fragments to the fragments.
type fragmentsByName map[string]transpile.Fragment

func byName(fragments []transpile.Fragment) fragmentsByName {
	known := make(fragmentsByName, len(fragments))
	for _, f := range fragments {
		known[f.Name] = f
	}
	return known
}

// place adds the origin of a layer.
func (known fragmentsByName) place(l Layer) Layer {
	if f, ok := known[l.Name]; ok {
		l.Origin, l.Source = f.Origin, f.File
	}
	return l
}

// withNested adds the configs that layers name as layers of their own. These configs are merged after all layers, in
// the order in which the layers name them. A config that replaces the whole config removes the Ignition configs of all
// other layers.
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

// LayersOfPool returns the layers of a pool in a repository: the fragments that its selector selects, without
// MachineConfigs of the cluster and of other sources.
func LayersOfPool(result transpile.Result, pool string) ([]Layer, error) {
	fragments, err := transpile.Select(result, pool)
	if err != nil {
		return nil, err
	}
	known := slices.Contains(result.Pools, pool) || slices.ContainsFunc(result.Cluster,
		func(o transpile.ClusterObject) bool {
			return o.Object.GetKind() == "MachineConfigPool" && o.Object.GetName() == pool
		})
	if !known {
		return nil, fmt.Errorf("there is no pool %s in this repository: it has %s", pool,
			strings.Join(result.Pools, ", "))
	}
	mcs := make([]*mcfgv1.MachineConfig, len(fragments))
	for i, f := range fragments {
		mcs[i] = f.MachineConfig
	}
	return LayersOf(mcs, fragments)
}
