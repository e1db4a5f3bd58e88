package health

import (
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// UnitsOf returns the units of a change, sorted. UnitsOf returns the units that the change enables, reloads or
// restarts, and the units whose file or drop-ins it writes, even if they are not started. UnitsOf leaves out units that
// are disabled, masked or removed, and templates.
func UnitsOf(rec host.Record) []string {
	found, gone := map[string]bool{}, map[string]bool{}
	for _, s := range rec.Steps {
		name := s.Target
		switch {
		case s.Verb == host.Enable, s.Verb == host.Reload, s.Verb == host.Restart:
		case s.Verb == host.Write:
			name = unitAt(s.Target)
		case s.Verb == host.MakeLink && s.After.Entry.Target == "/dev/null", s.Verb == host.Remove:
			if path.Dir(s.Target) == host.UnitDir {
				gone[path.Base(s.Target)] = true
			}
			continue
		default:
			continue
		}
		if name != "" && !strings.Contains(name, "@.") {
			found[name] = true
		}
	}
	var names []string
	for name := range found {
		if !gone[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unitAt returns the unit of a unit file or drop-in; "" for other paths.
func unitAt(p string) string {
	dir, base := path.Split(p)
	if dir = path.Clean(dir); dir == host.UnitDir {
		return base
	}
	if unit, isDropin := strings.CutSuffix(path.Base(dir), ".d"); isDropin && path.Dir(dir) == host.UnitDir &&
		strings.HasSuffix(base, ".conf") {
		return unit
	}
	return ""
}

// Reboots reports whether an update reboots the machine.
func Reboots(rec host.Record) bool {
	return len(rec.Steps) > 0 && rec.Steps[len(rec.Steps)-1].Verb == host.Reboot
}
