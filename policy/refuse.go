package policy

import (
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// ForceFile is the file whose presence makes a daemon skip validation once; a config must not bring it along.
const ForceFile = "/run/machine-config-daemon-force"

// Overrides say how much is taken in place. The zero value takes all that the daemon can do and that is safe to do on a
// running node; what only a first boot sets up goes to new nodes, and blocks nothing (NewNodesOnly tells it).
type Overrides struct {
	// OpenShift keeps to the limits of the original: differences in directories, links, groups, users other than core and
	// storage layout are refused, and so are appended files.
	OpenShift bool
	// Disks lifts the refusal of changes in storage.disks. This and the fields below count with OpenShift only.
	Disks bool
	// FileSystems lifts the refusal of changes in storage.filesystems.
	FileSystems bool
	// Raid lifts the refusal of changes in storage.raid.
	Raid bool
}

// Refuse returns every difference that a running node cannot take in place, so that none of the rest is applied either.
// Nothing means that a node on `from` can go to `to`. What the zero Overrides refuse, the others refuse too.
func Refuse(from, to machineconfig.Config, overrides Overrides) []Refusal {
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	var all []Refusal
	if overrides.OpenShift {
		all = refuseBeyondOriginal(from, to, overrides)
	} else {
		all = append(all, refuseUsers(from.Ignition.Passwd.Users, to.Ignition.Passwd.Users)...)
		all = append(all, refuseGroups(from.Ignition.Passwd.Groups, to.Ignition.Passwd.Groups)...)
	}
	if slices.ContainsFunc(to.Ignition.Storage.Files, func(f ign.File) bool { return f.Path == ForceFile }) {
		all = append(all, Refusal{"storage.files " + ForceFile, "this file makes the daemon skip its checks and cannot come from a config: remove it here, and touch it on the node by hand if you must"})
	}
	if from.FIPS != to.FIPS {
		all = append(all, Refusal{"fips", "FIPS mode cannot be changed on a running node: go back to the earlier value, or replace the nodes with new ones"})
	}
	return all
}

func isHard(l ign.Link) bool { return l.Hard != nil && *l.Hard }

// refuseUsers speaks about accounts that would become unusable, or whose files would lose their owner. A user whose entry
// goes as a whole is not locked out by mistake, and is let through.
func refuseUsers(from, to []ign.PasswdUser) (all []Refusal) {
	before := byKey(from)
	for _, u := range to {
		old, had := before[u.Name]
		gone := u.ShouldExist != nil && !*u.ShouldExist
		field := "passwd.users " + u.Name
		switch {
		case gone && u.Name == "root":
			all = append(all, Refusal{field, "a node without root does not run: remove shouldExist"})
		case gone || !had:
		case canEnter(old) && !canEnter(u):
			all = append(all, Refusal{field, "it would have neither an SSH key nor a password where it had one, which would lock its owner out: give one, or remove the user's entry whole"})
		case renumbers(old.UID, u.UID):
			all = append(all, Refusal{field, "its uid cannot be changed, for its files would belong to nobody: go back to the earlier uid, or leave it out"})
		case u.HomeDir != nil && (old.HomeDir == nil || *old.HomeDir != *u.HomeDir):
			all = append(all, Refusal{field, "its homeDir cannot be moved while it may be in use: go back to the earlier one, or make another user"})
		}
	}
	return all
}

func canEnter(u ign.PasswdUser) bool { return u.PasswordHash != nil || len(u.SSHAuthorizedKeys) > 0 }

// renumbers tells that a config says another number than before. One that is no longer said stays what it is on the node,
// and whether one that is said for the first time is the node's, only the node can tell.
func renumbers(old, now *int) bool { return now != nil && old != nil && *old != *now }

func refuseGroups(from, to []ign.PasswdGroup) (all []Refusal) {
	before := byKey(from)
	for _, g := range to {
		old, had := before[g.Name]
		gone := g.ShouldExist != nil && !*g.ShouldExist
		switch {
		case g.PasswordHash != nil && *g.PasswordHash != "" && !(had && sameGroup(old, g)):
			all = append(all, Refusal{"passwd.groups " + g.Name + " passwordHash", "passwords of groups are set on first boot only: leave it out, and make the users members"})
		case gone && g.Name == "root":
			all = append(all, Refusal{"passwd.groups " + g.Name, "a node without this group does not run: remove shouldExist"})
		case !gone && had && renumbers(old.Gid, g.Gid):
			all = append(all, Refusal{"passwd.groups " + g.Name, "its gid cannot be changed, for its files would belong to nobody: go back to the earlier gid, or leave it out"})
		}
	}
	return all
}
