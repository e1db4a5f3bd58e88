package disruption

import (
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"
)

// ForceFile is the file that makes a daemon skip validation once. A config must not contain this file.
const ForceFile = nodepath.Force

// Overrides limit what running nodes apply. With the zero value, they apply everything that the daemon can safely
// apply. Settings that only a first boot applies reach new nodes and block no update: NewNodesOnly lists them.
type Overrides struct {
	// If OpenShift is true, the limits of the Machine Config Operator apply: Refuse refuses differences in directories,
	// links, groups, users other than core and storage layout, and appended files.
	OpenShift bool
	// If Disks is true, Refuse accepts changes in storage.disks. Disks, FileSystems and Raid have an effect only
	// together with OpenShift.
	Disks bool
	// If FileSystems is true, Refuse accepts changes in storage.filesystems.
	FileSystems bool
	// If Raid is true, Refuse accepts changes in storage.raid.
	Raid bool
}

// Refuse returns every reason why a running node cannot change from one config to the other. If there is any refusal,
// the node applies nothing. The reasons are the invalid parts of the new config (from Invalid) and the differences that
// need new nodes. If there is no refusal, a node can change from `from` to `to`, unless one of the node's own checks
// (OnNode) fails. Every Overrides value also refuses what the zero value refuses.
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

// refuseReferences refuses invalid references to secrets, and those that no server resolves.
func refuseReferences(to machineconfig.Config) []Refusal {
	// A review also compares configs without the values of facts.
	if _, err := machineconfig.SecretFilesOf(to); err != nil {
		return []Refusal{{Field: "storage.files", Why: err.Error()}}
	}
	return nil
}

func isHard(l ign.Link) bool { return l.Hard != nil && *l.Hard }

// refuseUsers refuses changes that would lock out a user or leave files without an owner. refuseUsers accepts the
// removal of a whole entry.
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

// renumbers reports whether a config changes a number. If a config removes a number, the node keeps it. Only the node
// can check a new number.
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
