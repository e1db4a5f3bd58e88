package policy

import (
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Running returns what a running node takes of two configs that it goes between: their flat forms without the units that mount
// file systems of storage.filesystems. Only a first boot makes these file systems, and a node that waits for one that it does
// not have does not come up. Such a unit stays on a node as it is: the old config is without those of the new one too.
func Running(from, to machineconfig.Config) (a, b machineconfig.Config) {
	a, b = machineconfig.Flattened(from), machineconfig.Flattened(to)
	a.Ignition.Systemd.Units, b.Ignition.Systemd.Units = runningUnits(a.Ignition, b.Ignition)
	return a, b
}

// runningUnits are the units of two flat configs that running nodes take.
func runningUnits(a, b ign.Config) (from, to []ign.Unit) {
	held, holding := firstBootMounts(a), firstBootMounts(b)
	from = slices.DeleteFunc(slices.Clone(a.Systemd.Units), func(u ign.Unit) bool { return held[u.Name] || holding[u.Name] })
	to = slices.DeleteFunc(slices.Clone(b.Systemd.Units), func(u ign.Unit) bool { return holding[u.Name] })
	return from, to
}

// firstBootMounts names the units of a config that mount or swap on a device of its storage.filesystems.
func firstBootMounts(c ign.Config) map[string]bool {
	if len(c.Storage.Filesystems) == 0 {
		return nil
	}
	devices := byKey(c.Storage.Filesystems)
	held := map[string]bool{}
	for _, u := range c.Systemd.Units {
		mounts := strings.HasSuffix(u.Name, ".mount") || strings.HasSuffix(u.Name, ".swap")
		if !mounts || u.Contents == nil {
			continue
		}
		for line := range strings.Lines(*u.Contents) {
			key, value, _ := strings.Cut(line, "=")
			if _, made := devices[strings.TrimSpace(value)]; made && strings.TrimSpace(key) == "What" {
				held[u.Name] = true
			}
		}
	}
	return held
}

// unitChanges are the differences of units. Of a unit that a running node has or gets, it is the running node's.
func unitChanges(a, b ign.Config) Changes {
	all, live := keyed(nil, KindUnit, a.Systemd.Units, b.Systemd.Units, deepEqual[ign.Unit]), liveUnits(a, b)
	for _, c := range live {
		all = slices.DeleteFunc(all, func(o Change) bool { return o.Name == c.Name })
	}
	all = append(all, live...)
	slices.SortFunc(all, func(x, y Change) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// liveUnits are the differences of units that reach running nodes.
func liveUnits(a, b ign.Config) Changes {
	from, to := runningUnits(a, b)
	return keyed(nil, KindUnit, from, to, deepEqual[ign.Unit])
}
