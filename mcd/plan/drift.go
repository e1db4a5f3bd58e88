package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Drift lists in what a machine differs from the config that its record says is in force, one sentence each, in lexical
// order of paths, then units, then the OS. A path that already is as the next config wants it has not drifted: it was
// put right ahead of time. Contents are never told.
func Drift(observed host.State, from, to Wanted) []string {
	want := Target(observed, from, from)
	var found []string
	for _, p := range slices.Sorted(maps.Keys(from.Paths)) {
		is, shall := observed.Paths[p], want.Paths[p]
		if next, named := to.Paths[p]; is == shall || named && is == next {
			continue
		}
		found = append(found, driftOf(p, is, shall))
	}
	found = append(found, accountDrift(observed, want, from)...)
	for _, name := range slices.Sorted(maps.Keys(from.Units)) {
		if is, shall := observed.Units[name].Enabled, want.Units[name].Enabled; is != shall && from.Units[name].Enabled != nil {
			found = append(found, fmt.Sprintf("unit %q: expected %s; received %s", name, word(shall), word(is)))
		}
	}
	if is, shall := observed.OS.Kargs, want.OS.Kargs; observed.Support.Kargs && is != shall {
		found = append(found, fmt.Sprintf("kernel arguments: expected %q; received %q", shall, is))
	}
	if is, shall := observed.OS.Image, want.OS.Image; observed.Support.Image && is != shall {
		found = append(found, fmt.Sprintf("OS image: expected %q; received %q", shall, is))
	}
	return found
}

// accountDrift speaks about the parts of accounts that the config says; the others are anybody's. Passwords are not told.
func accountDrift(observed, want host.State, from Wanted) (found []string) {
	users, groups := usersOf(from), groupsOf(from)
	for _, name := range slices.Sorted(maps.Keys(users)) {
		is, shall := observed.Users[name], want.Users[name]
		switch at := strconv.Quote(name); {
		case is.There != shall.There:
			found = append(found, fmt.Sprintf("user %s: expected %s; received %s", at, present(shall.There), present(is.There)))
		case is != shall:
			found = append(found, fmt.Sprintf("user %s: %s", at, is.Difference(shall)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if is, shall := observed.Groups[name], want.Groups[name]; is != shall {
			found = append(found, fmt.Sprintf("group %q: expected %s; received %s", name, shall, is))
		}
	}
	return found
}

func present(there bool) string {
	if there {
		return "present"
	}
	return "absent"
}

func driftOf(p string, is, shall host.Entry) string {
	at := strconv.Quote(p)
	switch {
	case is.Kind != shall.Kind:
		return fmt.Sprintf("kind mismatch for %s: expected %s; received %s", at, kindOf(shall), kindOf(is))
	case is.Digest != shall.Digest:
		return fmt.Sprintf("content mismatch for file %s", at)
	case is.Target != shall.Target:
		return fmt.Sprintf("target mismatch for link %s; expected %s; received %s", at, shall.Target, is.Target)
	case is.Mode != shall.Mode:
		return fmt.Sprintf("mode mismatch for %s: %s; expected %04o; received %04o", kindOf(shall), at, shall.Mode, is.Mode)
	}
	return fmt.Sprintf("owner mismatch for %s: %s; expected %d:%d; received %d:%d", kindOf(shall), at, shall.Owner.UID, shall.Owner.GID, is.Owner.UID, is.Owner.GID)
}

func kindOf(e host.Entry) string {
	if e.Kind == host.Absent {
		return "nothing"
	}
	return string(e.Kind)
}

func word(on bool) string {
	if on {
		return enabled.Word
	}
	return disabled.Word
}
