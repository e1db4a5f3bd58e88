package policy

import (
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ForceFile is the file whose presence makes a daemon skip validation once; a config must not bring it along.
const ForceFile = v1alpha1.DaemonForcePath

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

// Refuse returns every reason why no running node can go from one config to the other in place, so that none of the rest is
// applied either: what no node can take of the new config (see Invalid), and the differences that cannot be made in place.
// Nothing means that a node on `from` can go to `to`, but for what each node checks itself (see OnNode). What the zero
// Overrides refuse, the others refuse too.
func Refuse(from, to machineconfig.Config, overrides Overrides) []Refusal {
	all := Invalid(to)
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	if overrides.OpenShift {
		all = append(all, refuseBeyondOriginal(from, to, overrides)...)
	} else {
		all = append(all, refuseUsers(from.Ignition.Passwd.Users, to.Ignition.Passwd.Users)...)
		all = append(all, refuseGroups(from.Ignition.Passwd.Groups, to.Ignition.Passwd.Groups)...)
	}
	if from.FIPS != to.FIPS {
		all = append(all, Refusal{Field: "fips", Why: "FIPS mode cannot be changed on a running node: go back to the earlier value, or replace the nodes with new ones"})
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
		case gone || !had:
		case canEnter(old) && !canEnter(u):
			all = append(all, Refusal{Field: field, Why: "it would have neither an SSH key nor a password where it had one, which would lock its owner out: give one, or remove the user's entry whole"})
		case renumbers(old.UID, u.UID):
			all = append(all, Refusal{Field: field, Why: "its uid cannot be changed, for its files would belong to nobody: go back to the earlier uid, or leave it out"})
		case u.HomeDir != nil && (old.HomeDir == nil || *old.HomeDir != *u.HomeDir):
			all = append(all, Refusal{Field: field, Why: "its homeDir cannot be moved while it may be in use: go back to the earlier one, or make another user"})
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
			all = append(all, Refusal{Field: "passwd.groups " + g.Name + " passwordHash", Why: "passwords of groups are set on first boot only: leave it out, and make the users members"})
		case !gone && had && renumbers(old.Gid, g.Gid):
			all = append(all, Refusal{Field: "passwd.groups " + g.Name, Why: "its gid cannot be changed, for its files would belong to nobody: go back to the earlier gid, or leave it out"})
		}
	}
	return all
}
