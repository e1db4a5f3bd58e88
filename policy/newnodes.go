package policy

import (
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// The words about what existing nodes do not get. They begin alike, so that people and programs know them again.
const (
	notGiven = "existing nodes will not get this: it is set up on first boot only; replace the nodes with new ones where you need it"
	notTaken = "existing nodes will not get this: what their first boot set up stays; replace the nodes with new ones where it must go"
)

// NewNodesOnly returns the differences that only machines get which boot for the first time: disks, filesystems, raid,
// encrypted volumes, the units that mount these file systems, Ignition's own kernelArguments and settings (proxies, timeouts),
// and how accounts are made. They block nothing (but see Overrides.OpenShift) and cost nothing. Every Why begins with "existing nodes will not get this: ".
func NewNodesOnly(from, to machineconfig.Config) (all []Refusal) {
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	a, b := from.Ignition, to.Ignition
	all = firstBoot(all, "storage.disks ", keyed(nil, KindStorage, a.Storage.Disks, b.Storage.Disks, deepEqual[ign.Disk]))
	all = firstBoot(all, "storage.filesystems ", keyed(nil, KindStorage, a.Storage.Filesystems, b.Storage.Filesystems, deepEqual[ign.Filesystem]))
	all = firstBoot(all, "storage.raid ", keyed(nil, KindStorage, a.Storage.Raid, b.Storage.Raid, deepEqual[ign.Raid]))
	all = firstBoot(all, "storage.luks ", keyed(nil, KindStorage, a.Storage.Luks, b.Storage.Luks, deepEqual[ign.Luks]))
	live := liveUnits(a, b)
	all = firstBoot(all, "systemd.units ", slices.DeleteFunc(unitChanges(a, b), func(c Change) bool { return slices.Contains(live, c) }))
	all = append(all, madeOtherwise("passwd.users ", a.Passwd.Users, b.Passwd.Users, userBirth)...)
	all = append(all, madeOtherwise("passwd.groups ", a.Passwd.Groups, b.Passwd.Groups, groupBirth)...)
	if !sameFirstBootKargs(a.KernelArguments, b.KernelArguments) {
		all = append(all, Refusal{Field: "kernelArguments (of Ignition)", Why: notGiven + ", or use the MachineConfig's own kernelArguments"})
	}
	return firstBoot(all, "ignition ", compareIgnition(nil, a.Ignition, b.Ignition))
}

func firstBoot(all []Refusal, section string, changes Changes) []Refusal {
	for _, c := range changes {
		why := notGiven
		if c.Verb == Removed {
			why = notTaken
		}
		all = append(all, Refusal{Field: section + c.Name, Why: why})
	}
	return all
}

// birth is what counts only when an account is made.
type birth struct{ system, noCreateHome, noLogInit, noUserGroup bool }

func userBirth(u ign.PasswdUser) birth {
	return birth{isTrue(u.System), isTrue(u.NoCreateHome), isTrue(u.NoLogInit), isTrue(u.NoUserGroup)}
}

func groupBirth(g ign.PasswdGroup) birth { return birth{system: isTrue(g.System)} }

func isTrue(b *bool) bool { return b != nil && *b }

// madeOtherwise names the accounts of both lists that new nodes make in another way than existing ones did.
func madeOtherwise[T interface{ Key() string }](section string, from, to []T, of func(T) birth) (all []Refusal) {
	before := byKey(from)
	for _, x := range to {
		if old, had := before[x.Key()]; had && of(old) != of(x) {
			all = append(all, Refusal{Field: section + x.Key(), Why: "existing nodes will not get this: how the account is made (system, noCreateHome, noLogInit, noUserGroup) counts on first boot only"})
		}
	}
	return all
}

// onlyAtBirth tells that of a change nothing reaches a running node.
func onlyAtBirth(c Change, from, to machineconfig.Config) bool {
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

// sameLiveUser compares what a running node can be told about a user.
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
