package plan

import (
	"maps"
	"path"
	"slices"

	"github.com/bunsen-os/bunsen/internal/disruption"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// enables reports whether a config enables a unit. A unit that the config masks is not enabled.
func enables(w Desired, name string) bool {
	u := w.Units[name]
	return u.Enabled != nil && *u.Enabled && !u.Masked
}

// masks returns the files of units that a config masks, by path.
func masks(w Desired) map[string]bool {
	all := map[string]bool{}
	for p, e := range w.Paths {
		if path.Dir(p) == host.UnitDir && host.IsMask(p, e) {
			all[p] = true
		}
	}
	return all
}

// Obstructed returns what a user or a program of the machine did so that a unit of the config is not enabled; the zero
// Obstacle if the unit is as its config says. The state is a target for this config. Units of the image that systemd
// cannot enable are as on a new machine, so they are no obstacle here. The links that enable a unit have no effect
// while it is masked.
func Obstructed(observed, target host.State, w Desired, name string) host.Obstacle {
	o := target.Units[name].Obstacle
	if _, own := w.Paths[o.At]; own || !enables(w, name) || !o.IsLocal() ||
		o.Why != host.UnitMasked && observed.Units[name].Enabled {
		return host.Obstacle{}
	}
	return o
}

// refuseObstructedUnits refuses a config that enables a unit which a user of the machine has masked, for example. If
// the present config enabled the unit already, this is drift, for which the node's DriftPolicy counts.
func refuseObstructedUnits(observed, target host.State, w Transition) (refusals []disruption.Refusal) {
	for _, name := range slices.Sorted(maps.Keys(w.New.Units)) {
		if o := Obstructed(observed, target, w.New, name); o.Why != "" && !isDrift(observed, w, name, o) {
			refusals = append(refusals, disruption.OnNode(disruption.CheckUnits, "systemd.units "+name,
				"the config enables it, and on this node it "+o.Problem()+": "+o.Advice(name)))
		}
	}
	return refusals
}

func isDrift(observed host.State, w Transition, name string, o host.Obstacle) bool {
	return enables(w.Old, name) && observed.Units[name].Obstacle == o
}

// obstructedUnits names the units that the config enables and that the machine cannot enable. systemd itself says
// nothing about a preset for a unit that does not exist, so a typing error would stay unseen. The review names units
// whose own contents have no [Install].
func obstructedUnits(observed, target host.State, w Transition) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(w.New.Units)) {
		o := target.Units[name].Obstacle
		_, own := w.New.Paths[o.At]
		if o.Why == "" || own || !enables(w.New, name) || w.New.Units[name].HasContents && !o.IsLocal() ||
			observed.Units[name].Enabled && o.Why == host.UnitStatic {
			continue
		}
		notes = append(notes, "unit "+name+" "+o.Problem()+", so it cannot be enabled: "+o.Advice(name))
	}
	return notes
}
