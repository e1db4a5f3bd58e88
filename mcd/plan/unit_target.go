package plan

import (
	"encoding/json"
	"path"
	"slices"

	"github.com/bunsen-os/bunsen/internal/disruption"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// unitRecords reads host.UnitsPath. unitRecords treats a damaged file as empty, because such a file must not prevent
// updates.
func unitRecords(seen host.State) map[string]bool {
	records := map[string]bool{}
	if json.Unmarshal(seen.Contents[seen.Paths[host.UnitsPath].Digest], &records) != nil || records == nil {
		return map[string]bool{}
	}
	return records
}

// decides reports whether the settings for a unit determine if it is enabled. A config with only drop-ins for a unit
// does not determine this.
func decides(w Unit) bool { return w.Enabled != nil || w.Masked || w.HasContents }

// setUnit sets whether a unit of the new config is enabled, and records or forgets its earlier state.
func (t *target) setUnit(name string, w Unit) {
	u := t.unitAfter(name)
	if u.Enabled = t.isEnabledBy(name, w); !decides(w) && t.isLinkedByConfig(name) {
		u.Install = t.seen.Units[name].Install // It may be enabled by that link alone, so no other links are made.
	}
	t.Units[name] = u
	if decides(w) || u.Enabled != t.seen.Units[name].Enabled {
		t.recordUnit(name)
	}
	if earlier, known := t.earlier[name]; known && !decides(w) && u.Enabled == earlier {
		delete(t.earlier, name)
	}
}

// isEnabledBy reports whether a unit of the new config is enabled. The config's setting decides, even if the machine
// has an obstacle; then Diff has no step, and obstructedUnits names the unit. Without a setting, the present state
// stays, except for a unit for which the current config has a setting, and for a unit that could not be enabled. A unit
// of the latter two kinds returns to its earlier state, or gets its preset.
func (t *target) isEnabledBy(name string, w Unit) bool {
	was, u := t.seen.Units[name], t.unitAfter(name)
	before := t.from.Units[name]
	switch {
	case hasLinkOf(t.to, name) && (w.Enabled == nil || w.Masked || t.isObstructedByConfig(name, w)):
		return was.Enabled // A link of the config enables the unit, whatever its file says.
	// The links stay: the image's own links have no effect while the unit is masked, and the daemon could not create
	// other links again.
	case w.Masked:
		return u.Enabled && isEnabledByImage(u)
	case w.Enabled != nil && *w.Enabled && t.isObstructedByConfig(name, w):
		return u.Enabled && isEnabledByImage(u)
	case w.Enabled != nil:
		return *w.Enabled
	case u.Install == "":
		untouched := was.Install == "" && !w.HasContents
		return u.Enabled && (untouched || isEnabledByImage(u))
	case u.Obstacle.Why == host.UnitTemplate:
		return false
	case before.Enabled != nil || before.Masked || was.Install == "":
		return t.wasEnabled(name, u)
	}
	return u.Enabled
}

// isObstructedByConfig reports whether the configs themselves, and not the machine, keep a unit from being enabled: the
// new config has the unit's file or the drop-in without [Install], or it ends what the unit had of [Install].
func (t *target) isObstructedByConfig(name string, w Unit) bool {
	o := t.unitAfter(name).Obstacle
	_, own := t.to.Paths[o.At]
	switch o.Why {
	case "", host.UnitAlias:
		return false
	case host.UnitTemplate:
		return true
	case host.UnitStatic:
		own = own || w.HasContents
	}
	return own || t.seen.Units[name].Install != "" && t.install(name) == ""
}

func isEnabledByImage(u host.Unit) bool { return u.Vendor != "" && u.Preset }

// For a unit that no config has enabled or disabled, recordUnit records whether the unit is enabled. A new unit has no
// earlier state.
func (t *target) recordUnit(name string) {
	was := t.seen.Units[name]
	_, known := t.earlier[name]
	if !known && !decides(t.from.Units[name]) && (was.Enabled || was.Install != "") {
		t.earlier[name] = was.Enabled && !t.isLinkedByConfig(name)
	}
}

// hasLinkOf reports whether a config has a link among its paths that enables a unit.
func hasLinkOf(w Desired, name string) bool {
	for p, e := range w.Paths {
		if e.Kind == host.Link && path.Base(p) == name && disruption.IsWant(p) {
			return true
		}
	}
	return false
}

// isLinkedByConfig reports whether a link of the current config enables a unit, and not the machine.
func (t *target) isLinkedByConfig(name string) bool {
	for p, e := range t.from.Paths {
		if path.Base(p) == name && e.Kind == host.Link && disruption.IsWant(p) &&
			t.original(p, recordOfOriginal(t.seen, p)).Kind == host.Absent {
			return true
		}
	}
	return false
}

// wasEnabled reports whether a unit was enabled before any config. If the daemon has no record, the unit's preset
// decides. New units and the units of the first config have no record.
func (t *target) wasEnabled(name string, u host.Unit) bool {
	if was, known := t.earlier[name]; known {
		return was
	}
	return u.Preset || t.isEnabledByAlso(name)
}

// restoreUnit returns a unit that the new config does not name to its earlier state. A unit without an [Install]
// section cannot be enabled again.
func (t *target) restoreUnit(name string) {
	u, w := t.unitAfter(name), t.from.Units[name]
	was, known := t.earlier[name]
	own := t.Paths[UnitPath(name)].Kind != host.Absent
	switch {
	case u.Install == "":
		u.Enabled = u.Enabled && known && was
	case known:
		u.Enabled = was
	case w.HasContents && own: // The update restores the original file, but it is unknown whether the unit was enabled.
	case decides(w):
		u.Enabled = t.wasEnabled(name, u)
	case t.isLinkedByConfig(name):
		u.Install = t.seen.Units[name].Install // as in setUnit
	}
	delete(t.earlier, name)
	t.Units[name] = u
}

// isEnabledByAlso reports whether a unit that the config or a preset enables names this unit in Also=.
func (t *target) isEnabledByAlso(name string) bool {
	for other, w := range t.to.Units {
		enabled := w.Enabled != nil && *w.Enabled || w.Enabled == nil && t.seen.Units[other].Preset
		if enabled && !w.Masked && slices.Contains(host.AlsoOf(t.install(other)), name) {
			return true
		}
	}
	return false
}
