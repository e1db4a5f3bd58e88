package apply_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// stateText returns a state as text, one line for each path, unit and account that exists.
func stateText(s host.State) string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(s.Paths)) {
		if e := s.Paths[p]; e.Kind != host.Absent {
			fmt.Fprintf(&b, "%s %s\n", p, e)
		}
	}
	for _, u := range slices.Sorted(maps.Keys(s.Units)) {
		if s.Units[u].Enabled {
			fmt.Fprintf(&b, "enabled %s\n", u)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Groups)) {
		if g := s.Groups[name]; g.There {
			fmt.Fprintf(&b, "group %s %s\n", name, g)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Users)) {
		if u := s.Users[name]; u.There {
			fmt.Fprintf(&b, "user %s %s\n", name, u)
		}
	}
	for _, line := range []struct{ name, value string }{
		{"image", s.OS.Image}, {"kargs", s.OS.Kargs}, {"kernel", s.OS.KernelType}, {"extensions", s.OS.Extensions},
	} {
		if line.value != "" {
			fmt.Fprintf(&b, "%s %s\n", line.name, line.value)
		}
	}
	return b.String()
}
