package policy

import (
	"reflect"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// ForceFile is the file whose presence makes a daemon skip validation once; a config must not bring it along.
const ForceFile = "/run/machine-config-daemon-force"

// Overrides are the refusals that an administrator has lifted; new nodes get the change, running ones keep what they
// have.
type Overrides struct {
	// Disks lifts the refusal of changes in storage.disks.
	Disks bool
	// FileSystems lifts the refusal of changes in storage.filesystems.
	FileSystems bool
	// Raid lifts the refusal of changes in storage.raid.
	Raid bool
}

// newNodes is the advice where a difference can only reach machines that boot for the first time.
const newNodes = "it is set up on first boot only: go back to the earlier value, or replace the nodes with new ones"

// Refuse returns every difference that a running node cannot take in place, so that none of the rest is applied either.
// Nothing means that a node on `from` can go to `to`.
func Refuse(from, to machineconfig.Config, overrides Overrides) []Refusal {
	var all []Refusal
	all = append(all, refuseStorage(from.Ignition.Storage, to.Ignition.Storage, overrides)...)
	all = append(all, refuseFiles(to.Ignition.Storage.Files)...)
	all = append(all, refusePasswd(from.Ignition.Passwd, to.Ignition.Passwd)...)
	a, b := from.Ignition.KernelArguments, to.Ignition.KernelArguments
	if !slices.Equal(a.ShouldExist, b.ShouldExist) || !slices.Equal(a.ShouldNotExist, b.ShouldNotExist) {
		all = append(all, Refusal{"kernelArguments (of Ignition)", "Ignition's kernelArguments act on first boot only: use the MachineConfig's own kernelArguments, which running nodes take"})
	}
	if from.FIPS != to.FIPS {
		all = append(all, Refusal{"fips", "FIPS mode cannot be changed on a running node: go back to the earlier value, or replace the nodes with new ones"})
	}
	return all
}

// refuseStorage covers what only a first boot sets up. Encrypted volumes are let through: the change is for new nodes.
func refuseStorage(a, b ign.Storage, o Overrides) (all []Refusal) {
	const lift = "; irreconcilableValidationOverrides in MachineConfiguration lets the change through to new nodes only"
	for _, s := range []struct {
		field  string
		same   bool
		lifted bool
		why    string
	}{
		{"storage.disks", sameList(a.Disks, b.Disks), o.Disks, newNodes + lift},
		{"storage.filesystems", sameList(a.Filesystems, b.Filesystems), o.FileSystems, newNodes + lift},
		{"storage.raid", sameList(a.Raid, b.Raid), o.Raid, newNodes + lift},
		{"storage.directories", sameList(a.Directories, b.Directories), false, newNodes + "; a directory that holds a file of the config is made with it"},
		{"storage.links", sameList(a.Links, b.Links), len(b.Links) == 0, newNodes},
	} {
		if !s.same && !s.lifted {
			all = append(all, Refusal{s.field, s.why})
		}
	}
	return all
}

func refuseFiles(files []ign.File) (all []Refusal) {
	for _, f := range files {
		if len(f.Append) > 0 {
			all = append(all, Refusal{"storage.files " + f.Path + " append", "appending twice would grow the file at every update: give the whole contents, or use a drop-in directory of the program"})
		}
		if f.Path == ForceFile {
			all = append(all, Refusal{"storage.files " + f.Path, "this file makes the daemon skip its checks and cannot come from a config: remove it here, and touch it on the node by hand if you must"})
		}
	}
	return all
}

func refusePasswd(a, b ign.Passwd) (all []Refusal) {
	if !sameList(a.Groups, b.Groups) {
		all = append(all, Refusal{"passwd.groups", newNodes})
	}
	if sameList(a.Users, b.Users) {
		return all
	}
	for _, u := range b.Users {
		field := "passwd.users " + u.Name
		switch {
		case u.Name != "core":
			all = append(all, Refusal{field, "only user core can be changed on a running node: make other users on first boot, or by a unit"})
		case !onlyKeysAndPassword(u):
			all = append(all, Refusal{field, "only sshAuthorizedKeys and passwordHash of core can be changed on a running node: leave the other fields out"})
		case u.PasswordHash == nil && len(u.SSHAuthorizedKeys) == 0:
			all = append(all, Refusal{field, "it has neither an SSH key nor a password, which would lock everybody out: give one, or remove the user's entry whole"})
		}
	}
	return all
}

func onlyKeysAndPassword(u ign.PasswdUser) bool {
	rest := u
	rest.PasswordHash, rest.SSHAuthorizedKeys = nil, nil
	return reflect.DeepEqual(rest, ign.PasswdUser{Name: u.Name})
}

// sameList compares lists; a missing one is an empty one.
func sameList[T any](a, b []T) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}
