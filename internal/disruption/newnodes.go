package disruption

import (
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// NewNodesOnlyPrefix is the beginning of Why in every refusal of NewNodesOnly. A program that prints the prefix once
// for all refusals removes it.
const NewNodesOnlyPrefix = "existing nodes will not get this: "

// Reasons why existing nodes do not get a change.
const (
	reasonAdded = NewNodesOnlyPrefix + "it is set up on first boot only; replace the nodes with new ones where you " +
		"need it"
	reasonDownloads = NewNodesOnlyPrefix + "their first boot is over; for their own downloads they use it from now on"
	reasonRemoved   = NewNodesOnlyPrefix + "what their first boot set up stays; replace the nodes with new ones to " +
		"remove it"
)

// NewNodesOnly returns the differences that only a first boot applies: disks, filesystems, raid, encrypted volumes, the
// units that mount these file systems, Ignition's own kernelArguments and settings (proxies, timeouts), and how
// accounts are created. Differences that only new nodes get block no update (except with Overrides.OpenShift) and need
// no action.
func NewNodesOnly(from, to machineconfig.Config) (all []Refusal) {
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	a, b := from.Ignition, to.Ignition
	all = firstBoot(all, "storage.disks ", compareLists(KindStorage, a.Storage.Disks, b.Storage.Disks,
		deepEqual[ign.Disk]))
	all = firstBoot(all, "storage.filesystems ", compareLists(KindStorage, a.Storage.Filesystems, b.Storage.Filesystems,
		deepEqual[ign.Filesystem]))
	all = firstBoot(all, "storage.raid ", compareLists(KindStorage, a.Storage.Raid, b.Storage.Raid,
		deepEqual[ign.Raid]))
	all = firstBoot(all, "storage.luks ", compareLists(KindStorage, a.Storage.Luks, b.Storage.Luks,
		deepEqual[ign.Luks]))
	live := liveUnits(a, b)
	all = firstBoot(all, "systemd.units ", slices.DeleteFunc(unitChanges(a, b), func(c Change) bool {
		return slices.Contains(live, c)
	}))
	all = append(all, createdDifferently("passwd.users ", a.Passwd.Users, b.Passwd.Users, userCreation)...)
	all = append(all, createdDifferently("passwd.groups ", a.Passwd.Groups, b.Passwd.Groups, groupCreation)...)
	if !sameFirstBootKargs(a.KernelArguments, b.KernelArguments) {
		all = append(all, Refusal{Field: "kernelArguments (of Ignition)", Why: reasonAdded +
			", or use the MachineConfig's own kernelArguments"})
	}
	all = firstBoot(all, "ignition ", compareIgnition(a.Ignition, b.Ignition))
	for i, r := range all {
		if r.Field == "ignition security.tls" || r.Field == "ignition proxy" {
			all[i].Why = reasonDownloads
		}
	}
	return all
}

func firstBoot(all []Refusal, section string, changes Changes) []Refusal {
	for _, c := range changes {
		why := reasonAdded
		if c.Verb == Removed {
			why = reasonRemoved
		}
		all = append(all, Refusal{Field: section + c.Name, Why: why})
	}
	return all
}

// creation has the settings that apply only when an account is created.
type creation struct{ system, noCreateHome, noLogInit, noUserGroup bool }

func userCreation(u ign.PasswdUser) creation {
	return creation{isTrue(u.System), isTrue(u.NoCreateHome), isTrue(u.NoLogInit), isTrue(u.NoUserGroup)}
}

func groupCreation(g ign.PasswdGroup) creation { return creation{system: isTrue(g.System)} }

func isTrue(b *bool) bool { return b != nil && *b }

// createdDifferently returns the accounts in both configs that new nodes create with different settings.
func createdDifferently[T interface{ Key() string }](section string, from, to []T,
	of func(T) creation,
) (all []Refusal) {
	before := byKey(from)
	for _, x := range to {
		if old, had := before[x.Key()]; had && of(old) != of(x) {
			all = append(all, Refusal{Field: section + x.Key(), Why: NewNodesOnlyPrefix + "how the account is " +
				"created (system, noCreateHome, noLogInit, noUserGroup) counts on first boot only"})
		}
	}
	return all
}

// isForNewNodes reports whether no part of a change reaches running nodes.
func isForNewNodes(c Change, from, to machineconfig.Config) bool {
	a, b := from.Ignition, to.Ignition
	switch c.Kind {
	case KindStorage, KindFirstBootKargs, KindIgnition:
		return true
	case KindUnit:
		return !slices.Contains(liveUnits(a, b), c)
	case KindUser:
		return c.Verb == Changed && sameLiveUser(byKey(a.Passwd.Users)[c.Name], byKey(b.Passwd.Users)[c.Name])
	case KindGroup:
		return c.Verb == Changed && sameLiveGroup(byKey(a.Passwd.Groups)[c.Name], byKey(b.Passwd.Groups)[c.Name])
	}
	return false
}

// sameLiveUser compares the settings of a user that running nodes apply.
func sameLiveUser(a, b ign.PasswdUser) bool {
	for _, u := range []*ign.PasswdUser{&a, &b} {
		u.System, u.NoCreateHome, u.NoLogInit, u.NoUserGroup = nil, nil, nil, nil
	}
	return sameUser(a, b)
}

func sameLiveGroup(a, b ign.PasswdGroup) bool {
	a.System, b.System = nil, nil
	return sameGroup(a, b)
}
