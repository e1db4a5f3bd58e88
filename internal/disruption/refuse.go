package disruption

import (
	"reflect"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"
)

// ForceFile is the file that makes a daemon skip validation once. A config must not contain this file.
const ForceFile = nodepath.Force

// Overrides limit what running nodes apply; zero: everything that the daemon can safely apply. What only a first boot
// applies reaches new nodes and blocks no update: NewNodesOnly lists it.
type Overrides struct {
	// OpenShift applies the limits of the Machine Config Operator: Refuse refuses differences in directories, links,
	// groups, users other than core and storage layout, and appended files.
	OpenShift bool
	// Disks accepts changes in storage.disks. Like the following, it has an effect only together with OpenShift.
	Disks bool
	// FileSystems accepts changes in storage.filesystems.
	FileSystems bool
	// Raid accepts changes in storage.raid.
	Raid bool
}

// Refuse returns every reason why a running node cannot change from one config to the other: the invalid parts of the
// new config (from Invalid) and the differences that need new nodes. With any, the node applies nothing. With none, it
// can change, unless one of its own checks (OnNode) fails. Every value of Overrides refuses at least what the zero
// value does.
func Refuse(from, to machineconfig.Config, overrides Overrides) []Refusal {
	all := Invalid(to)
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	if overrides.OpenShift {
		all = append(all, refuseBeyondOriginal(from, to, overrides)...)
	} else {
		all = append(all, refuseUsers(from.Ignition.Passwd.Users, to.Ignition.Passwd.Users)...)
		all = append(all, refuseGroups(from.Ignition.Passwd.Groups, to.Ignition.Passwd.Groups)...)
	}
	all = append(all, refuseReferences(to)...)
	if from.FIPS != to.FIPS {
		all = append(all, Refusal{Field: "fips", Why: "FIPS mode cannot be changed on a running node: restore the " +
			"earlier value, or replace the nodes with new ones"})
	}
	return all
}

// refuseBeyondOriginal refuses what the Machine Config Operator does, and Bunsen accepts by default.
func refuseBeyondOriginal(from, to machineconfig.Config, o Overrides) []Refusal {
	all := refuseStorage(from.Ignition.Storage, to.Ignition.Storage, o)
	for _, f := range to.Ignition.Storage.Files {
		if len(f.Append) > 0 {
			all = append(all, Refusal{Field: "storage.files " + f.Path + " append", Why: "appending is refused, as " +
				"OpenShift does: give the whole contents, or use a drop-in directory of the program"})
		}
	}
	all = append(all, refusePasswd(from.Ignition.Passwd, to.Ignition.Passwd)...)
	if !sameFirstBootKargs(from.Ignition.KernelArguments, to.Ignition.KernelArguments) {
		all = append(all, Refusal{Field: "kernelArguments (of Ignition)", Why: "Ignition's kernelArguments act on " +
			"first boot only: use the MachineConfig's own kernelArguments, which running nodes take"})
	}
	return all
}

// refuseStorage refuses changes of storage that the Machine Config Operator applies on first boot only, except those of
// encrypted volumes, which new nodes get.
func refuseStorage(a, b ign.Storage, o Overrides) (all []Refusal) {
	const overrides = "; irreconcilableValidationOverrides in MachineConfiguration lets the change through to new " +
		"nodes only"
	const inPlace = "; without the annotation " + InPlaceAnnotation + " nodes take it in place"
	for _, s := range []struct {
		field  string
		same   bool
		lifted bool
		why    string
	}{
		{"storage.disks", sameList(a.Disks, b.Disks), o.Disks, newNodes + overrides},
		{"storage.filesystems", sameList(a.Filesystems, b.Filesystems), o.FileSystems, newNodes + overrides},
		{"storage.raid", sameList(a.Raid, b.Raid), o.Raid, newNodes + overrides},
		{"storage.directories", sameList(a.Directories, b.Directories), false, newNodes +
			"; the parent directory of a file of the config is created with it" + inPlace},
		{"storage.links", sameList(a.Links, b.Links), len(b.Links) == 0, newNodes + inPlace},
	} {
		if !s.same && !s.lifted {
			all = append(all, Refusal{Field: s.field, Why: s.why})
		}
	}
	return all
}

func refusePasswd(a, b ign.Passwd) (all []Refusal) {
	if !sameList(a.Groups, b.Groups) {
		all = append(all, Refusal{Field: "passwd.groups", Why: newNodes})
	}
	if sameList(a.Users, b.Users) {
		return all
	}
	for _, u := range b.Users {
		field := "passwd.users " + u.Name
		switch {
		case u.Name != "core":
			all = append(all, Refusal{Field: field, Why: "only user core can be changed on a running node: create " +
				"other users on first boot or with a unit"})
		case !onlyKeysAndPassword(u):
			all = append(all, Refusal{Field: field, Why: "only sshAuthorizedKeys and passwordHash of core can be " +
				"changed on a running node: leave the other fields out"})
		case !canEnter(u):
			all = append(all, Refusal{Field: field, Why: "it has neither an SSH key nor a password, which would lock " +
				"out all users: set one, or remove the whole entry of the user"})
		}
	}
	return all
}

func onlyKeysAndPassword(u ign.PasswdUser) bool {
	rest := u
	rest.PasswordHash, rest.SSHAuthorizedKeys = nil, nil
	return reflect.DeepEqual(rest, ign.PasswdUser{Name: u.Name})
}

// refuseReferences refuses invalid references to secrets, and those that no server resolves.
func refuseReferences(to machineconfig.Config) []Refusal {
	// A review also compares configs without the values of facts.
	if _, err := machineconfig.SecretFilesOf(to); err != nil {
		return []Refusal{{Field: "storage.files", Why: err.Error()}}
	}
	return nil
}

func isHard(l ign.Link) bool { return l.Hard != nil && *l.Hard }

// refuseUsers refuses changes that would lock out a user or leave files without an owner. A whole entry may go.
func refuseUsers(from, to []ign.PasswdUser) (all []Refusal) {
	before := byKey(from)
	for _, u := range to {
		old, had := before[u.Name]
		removed := u.ShouldExist != nil && !*u.ShouldExist
		field := "passwd.users " + u.Name
		switch {
		case removed || !had:
		case canEnter(old) && !canEnter(u):
			all = append(all, Refusal{Field: field, Why: "it would lose its last SSH key or password, which would " +
				"lock out the user: set one, or remove the whole entry of the user"})
		case renumbers(old.UID, u.UID):
			all = append(all, Refusal{Field: field, Why: "its uid cannot be changed, because its files would have no " +
				"owner: restore the earlier uid, or remove it"})
		case u.HomeDir != nil && (old.HomeDir == nil || *old.HomeDir != *u.HomeDir):
			all = append(all, Refusal{Field: field, Why: "a running node cannot change the homeDir of a user: " +
				"restore the earlier one, or create another user"})
		}
	}
	return all
}

func canEnter(u ign.PasswdUser) bool { return u.PasswordHash != nil || len(u.SSHAuthorizedKeys) > 0 }

// renumbers reports whether a config changes a number. If it removes one, the node keeps it. Only the node can check a
// new one.
func renumbers(old, now *int) bool { return now != nil && old != nil && *old != *now }

func refuseGroups(from, to []ign.PasswdGroup) (all []Refusal) {
	before := byKey(from)
	for _, g := range to {
		old, had := before[g.Name]
		removed := g.ShouldExist != nil && !*g.ShouldExist
		switch {
		case g.PasswordHash != nil && *g.PasswordHash != "" && !(had && sameGroup(old, g)):
			all = append(all, Refusal{
				Field: "passwd.groups " + g.Name + " passwordHash",
				Why:   "passwords of groups are set on first boot only: remove it, and add the users to the group",
			})
		case !removed && had && renumbers(old.Gid, g.Gid):
			all = append(all, Refusal{Field: "passwd.groups " + g.Name, Why: "its gid cannot be changed, because its " +
				"files would have no owner: restore the earlier gid, or remove it"})
		}
	}
	return all
}

// newNodes is the advice for what only a first boot can apply.
const newNodes = "it is set up on first boot only: restore the earlier value, or replace the nodes with new ones"

// sameList does not tell nil from empty.
func sameList[T any](a, b []T) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}
