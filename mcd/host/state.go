package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Places on a node that belong to the daemon.
const (
	// RecordPath holds the config in force, as a MachineConfig in JSON, for root only: configs hold secrets.
	RecordPath = v1alpha1.DaemonRecordPath
	// SeedPath is the annotations that a machine is born with, written by the Ignition server's config.
	SeedPath = "/etc/machine-config-daemon/node-annotations.json"
	// OrigDir keeps what a config replaced first, at <OrigDir>/<path><OrigSuffix>.
	OrigDir    = v1alpha1.DaemonOrigDir
	OrigSuffix = ".mcdorig"
	// NoOrigDir stamps paths where nothing was, at <NoOrigDir>/<path>.mcdnoorig.
	NoOrigDir = v1alpha1.DaemonNoOrigDir
	// StateDir has the journal and the store of old contents, for root only. It is in /var because an OS update swaps /etc.
	StateDir = v1alpha1.DaemonStateDir
	// ForcePath exists when a person wants the next update to go ahead whatever is on disk.
	ForcePath = v1alpha1.DaemonForcePath
	// AccountsPath keeps what users and groups were before a config took them, for root only: it holds password hashes.
	AccountsPath = v1alpha1.DaemonAccountsPath
	// NewSuffix ends the name, after a dot before it, under which a path's new contents wait for their rename.
	NewSuffix = v1alpha1.DaemonNewSuffix
	// UnitDir is where an administrator's units live.
	UnitDir = v1alpha1.UnitDir
)

// State is what was observed of a machine, as far as somebody asked.
type State struct {
	// Paths that were asked for; absent ones are in it with the zero Entry.
	Paths map[string]Entry
	// Unsafe says why the daemon does not open those of Paths that are of this kind.
	Unsafe map[string]string
	// Units that were asked for, by name.
	Units map[string]Unit
	// Users and Groups that were asked for, by name; those that are not there have the zero value.
	Users  map[string]User
	Groups map[string]Group
	// Contents by digest, of what somebody asked to read: files that are appended to, passwords, what accounts were before.
	// They are secret as a whole, and never printed.
	Contents map[Digest][]byte
	// OS as the next boot will have it.
	OS OS
	// Support says what of the OS this machine can change.
	Support Support
	// Accounts of the machine, to resolve names.
	Accounts Accounts
}

// Unit is what systemd would do with a unit's name. Contents, drop-ins and masks are Paths.
type Unit struct {
	// Enabled: something pulls the unit in by a symlink.
	Enabled bool
	// Install is what the unit's file and its drop-ins say in [Install] together, in the form of InstallOf; "" for a unit
	// without a file or without [Install], which cannot be enabled.
	Install string
	// Vendor is Install without the administrator's files, which counts when those are taken away.
	Vendor string
	// Parts has the Sections that Install is put together from, for who wants to know what it would be with other files; ""
	// where it is that of one file.
	Parts string
	// Preset: what the machine's preset files say about it.
	Preset bool
}

// OS is the part of a machine that needs a reboot to change. Lists are joined by blanks, so that OS is comparable.
type OS struct {
	// Image is the pull spec, or "".
	Image string
	// Kargs are kernel arguments in order; of a State, only those that were asked for.
	Kargs string
	// KernelType is default, realtime or 64k-pages.
	KernelType string
	// Extensions by name, in lexical order.
	Extensions string
}

// Support says which parts of the OS a machine can change, and why not the others.
type Support struct {
	// Image, Kargs, KernelType and Extensions can be staged.
	Image, Kargs, KernelType, Extensions bool
	// Why in words that complete "because …", where one of them is false.
	Why string
}

// Clone copies the state's maps, so that the copy can be changed.
func (s State) Clone() State {
	s.Paths, s.Unsafe, s.Units = cloned(s.Paths), cloned(s.Unsafe), cloned(s.Units)
	s.Users, s.Groups, s.Contents = cloned(s.Users), cloned(s.Groups), cloned(s.Contents)
	return s
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// String is canonical text, one line for each thing that is there.
func (s State) String() string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(s.Paths)) {
		if e := s.Paths[p]; e.Kind != Absent {
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
