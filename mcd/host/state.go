package host

import (
	"maps"

	"github.com/bunsen-os/bunsen/api/nodepath"
)

// Paths on a node that belong to the daemon.
const (
	// RecordPath is the file with the config in force, as a MachineConfig in JSON. Only root may read it, because
	// configs have secrets.
	RecordPath = nodepath.Record
	// InitialAnnotationsPath has the annotations of a new machine. The server adds the file to the first config.
	InitialAnnotationsPath = "/etc/machine-config-daemon/node-annotations.json"
	// OrigDir has the original files that a config replaced, at <OrigDir>/<path><OrigSuffix>.
	OrigDir    = nodepath.OrigDir
	OrigSuffix = ".mcdorig"
	// NoOrigDir has files that mark paths which did not exist before a config, at <NoOrigDir>/<path>.mcdnoorig.
	NoOrigDir = nodepath.NoOrigDir
	// StateDir has the journal and the store of old contents, for root only. The directory is in /var because an OS
	// update replaces /etc.
	StateDir = nodepath.StateDir
	// ContentDir has the contents of remote files, downloaded completely or in part, for root only.
	ContentDir = StateDir + "/content"
	// ForcePath is the force file. If this file exists, the next update ignores drift.
	ForcePath = nodepath.Force
	// AccountsPath has the users and groups as they were before a config changed them. Only root may read this file,
	// because it has password hashes.
	AccountsPath = nodepath.Accounts
	// UnitsPath has the units that configs enabled or disabled, and whether each was enabled before.
	UnitsPath = nodepath.Units
	// NewSuffix is the suffix of the temporary file that is renamed to a path. The name starts with a dot.
	NewSuffix = nodepath.NewSuffix
	// UnitDir is the directory with the units of the administrator.
	UnitDir = nodepath.UnitDir
)

// State is the observed part of a machine.
type State struct {
	// Paths are the entries in the scope. A path that does not exist has the zero Entry.
	Paths map[string]Entry
	// Unsafe has, for the paths of kind Unsafe, why the daemon does not open them.
	Unsafe map[string]string
	// Units in the scope, by name.
	Units map[string]Unit
	// Users and Groups in the scope, by name. An account that does not exist has the zero value.
	Users  map[string]User
	Groups map[string]Group
	// Contents are needed contents, by digest: files with appended parts, passwords, the records of accounts. Contents
	// are secret and never printed.
	Contents map[Digest][]byte
	// OS is the OS of the next boot.
	OS OS
	// Support says which parts of the OS the machine can change.
	Support Support
	// Accounts are the accounts of the machine, to resolve names.
	Accounts Accounts
}

// Unit says whether and how a unit is enabled. The contents, drop-ins and masks of a unit are in State.Paths.
type Unit struct {
	// Enabled is true if a symlink enables the unit.
	Enabled bool
	// Install is the [Install] section of the unit's file and drop-ins together, in the form of InstallOf. Install is
	// "" if the unit has no file or no [Install] section.
	Install string
	// Obstacle is what keeps systemd from enabling the unit.
	Obstacle Obstacle
	// AliasOf is the unit to which the name leads by a link; "" for a unit with a file of its own.
	AliasOf string
	// Vendor is the [Install] section without the administrator's files. Vendor becomes effective if the
	// administrator's files are removed.
	Vendor string
	// Parts has the Sections from which Install is computed, in case files change. Parts is "" if Install comes from
	// one file.
	Parts string
	// Preset is true if the machine's presets enable the unit.
	Preset bool
}

// OS is the part of a machine that changes with a reboot. Lists are joined by blanks, so that OS is comparable.
type OS struct {
	// Image is the pull spec, or "".
	Image string
	// Kargs are kernel arguments in order. In a State, Kargs are only the arguments in the scope.
	Kargs string
	// KernelType is default, realtime or 64k-pages.
	KernelType string
	// Extensions by name, sorted.
	Extensions string
}

// Support says which parts of the OS a machine can change, and why it cannot change the other parts.
type Support struct {
	// Image, Kargs, KernelType and Extensions are true for the parts that can be staged.
	Image, Kargs, KernelType, Extensions bool
	// PlainKargs is true if Stage adds only kernel arguments that are plain, as package distribution defines it.
	PlainKargs bool
	// OwnKargs are the machine's own kernel arguments, if Stage can neither remove nor move them. Stage adds other
	// arguments after them.
	OwnKargs string
	// Why is the reason if a part cannot be staged, as the end of a sentence with "because".
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
