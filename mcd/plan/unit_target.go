package plan

import (
	"encoding/json"
	"maps"
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

// unmask removes a mask if the new config says mask: false.
func (t *target) unmask(name string, w Unit) {
	at := UnitPath(name)
	if w.Unmask && !w.HasContents && host.IsMask(at, t.Paths[at]) {
		t.Paths[at] = host.Entry{}
	}
}

// setUnits decides which units are enabled, and records how the units were before.
func (t *target) setUnits() {
	t.earlier = unitRecords(t.seen)
	for name := range t.from.Units {
		if _, kept := t.to.Units[name]; !kept {
			t.restoreUnit(name)
		}
	}
	for name, u := range t.to.Units {
		t.setUnit(name, u)
	}
	t.enableAlso()
	t.writeUnitRecords()
}

// writeUnitRecords writes the records if they changed, and removes the file if they are empty.
func (t *target) writeUnitRecords() {
	text, err := json.Marshal(t.earlier)
	switch {
	case err != nil || maps.Equal(t.earlier, unitRecords(t.seen)):
	case len(t.earlier) == 0:
		t.Paths[host.UnitsPath] = host.Entry{}
	default:
		d := host.DigestOf(text)
		t.Paths[host.UnitsPath] = host.Entry{Kind: host.File, Mode: 0o600, Digest: d}
		t.Contents[d] = text
	}
}

// enableAlso enables or disables the units of Also= together with the unit that names them, unless the config names
// them itself.
func (t *target) enableAlso() {
	done := map[string]bool{}
	names := slices.Sorted(maps.Keys(t.Units))
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		was, is := t.seen.Units[name], t.Units[name]
		if done[name] || was.Enabled == is.Enabled {
			continue
		}
		done[name] = true
		install := is.Install
		if !is.Enabled {
			install = was.Install
		}
		for _, other := range host.AlsoOf(install) {
			if t.enableWith(other, is.Enabled, decides(t.to.Units[name])) {
				names = append(names, other)
			}
		}
	}
}

// enableWith enables or disables a unit of Also=, and reports whether it has changed the unit. If the new config does
// not decide about the unit that names this unit in Also=, this unit returns to its earlier state too.
func (t *target) enableWith(name string, enabled, decided bool) bool {
	said := t.to.Units[name]
	_, seen := t.Units[name]
	u := t.unitAfter(name)
	if !seen || said.Enabled != nil || said.Masked || enabled && u.Obstacle.Why != "" {
		return false
	}
	was, known := t.earlier[name]
	if u.Enabled = enabled; decided {
		t.recordUnit(name)
	} else if known && !decides(said) {
		u.Enabled = was && u.Install != ""
		delete(t.earlier, name)
	}
	t.Units[name] = u
	return true
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
		if e.Kind == host.Link && slices.Contains(disruption.UnitsEnabledBy(p, e.Target), name) {
			return true
		}
	}
	return false
}

// isLinkedByConfig reports whether a link of the current config enables a unit, and not the machine.
func (t *target) isLinkedByConfig(name string) bool {
	for p, e := range t.from.Paths {
		if e.Kind == host.Link && slices.Contains(disruption.UnitsEnabledBy(p, e.Target), name) &&
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
