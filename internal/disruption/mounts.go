package disruption

import (
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Running returns the parts of two configs that a running node applies: their flat forms without the units that mount
// file systems of storage.filesystems. Only a first boot creates these file systems, and a node without them would not
// boot with such a unit. These units do not change on a running node, so Running leaves them out of both configs.
func Running(from, to machineconfig.Config) (a, b machineconfig.Config) {
	a, b = machineconfig.Flattened(from), machineconfig.Flattened(to)
	a.Ignition.Systemd.Units, b.Ignition.Systemd.Units = runningUnits(a.Ignition, b.Ignition)
	return a, b
}

// runningUnits returns the units of two flat configs that running nodes apply.
func runningUnits(a, b ign.Config) (from, to []ign.Unit) {
	before, after := firstBootMounts(a), firstBootMounts(b)
	from = slices.DeleteFunc(slices.Clone(a.Systemd.Units), func(u ign.Unit) bool {
		return before[u.Name] || after[u.Name]
	})
	to = slices.DeleteFunc(slices.Clone(b.Systemd.Units), func(u ign.Unit) bool { return after[u.Name] })
	return from, to
}

// firstBootMounts returns the names of units that mount or swap on a device of the config's storage.filesystems.
func firstBootMounts(c ign.Config) map[string]bool {
	if len(c.Storage.Filesystems) == 0 {
		return nil
	}
	devices := byKey(c.Storage.Filesystems)
	mounts := map[string]bool{}
	for _, u := range c.Systemd.Units {
		isMount := strings.HasSuffix(u.Name, ".mount") || strings.HasSuffix(u.Name, ".swap")
		if !isMount || u.Contents == nil {
			continue
		}
		for line := range strings.Lines(*u.Contents) {
			key, value, _ := strings.Cut(line, "=")
			if _, made := devices[strings.TrimSpace(value)]; made && strings.TrimSpace(key) == "What" {
				mounts[u.Name] = true
			}
		}
	}
	return mounts
}

// unitChanges returns the differences of units. For a unit that reaches running nodes, unitChanges compares the results
// of Running.
func unitChanges(a, b ign.Config) Changes {
	all, live := compareLists(KindUnit, a.Systemd.Units, b.Systemd.Units, deepEqual[ign.Unit]), liveUnits(a, b)
	for _, c := range live {
		all = slices.DeleteFunc(all, func(o Change) bool { return o.Name == c.Name })
	}
	all = append(all, live...)
	slices.SortFunc(all, func(x, y Change) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// liveUnits returns the differences of units that reach running nodes.
func liveUnits(a, b ign.Config) Changes {
	from, to := runningUnits(a, b)
	return compareLists(KindUnit, from, to, deepEqual[ign.Unit])
}
