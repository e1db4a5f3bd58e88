package disruption

import (
	"reflect"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// newNodes is the advice for a difference that only a first boot can apply.
const newNodes = "it is set up on first boot only: restore the earlier value, or replace the nodes with new ones"

// refuseBeyondOriginal refuses differences that the Machine Config Operator refuses and that Bunsen accepts by default.
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

// refuseStorage refuses changes of storage that the Machine Config Operator applies on first boot only. refuseStorage
// accepts changes of encrypted volumes, which new nodes get.
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

// sameList compares lists. A nil list equals an empty list.
func sameList[T any](a, b []T) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}
