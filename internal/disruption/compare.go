package disruption

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Compare returns every difference between two configs that affects a node. A file with the same bytes, mode and owner
// has not changed, however its contents are encoded. The order of a list counts only if it has a meaning. The image of
// extensions alone is not a difference, because nodes use it only when the OS changes.
func Compare(from, to machineconfig.Config) Changes {
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	a, b := from.Ignition, to.Ignition
	ka, kb := a.KernelArguments, b.KernelArguments
	return slices.Concat(
		compareLists(KindFile, a.Storage.Files, b.Storage.Files, sameFile),
		unitChanges(a, b),
		compareLists(KindUser, a.Passwd.Users, b.Passwd.Users, sameUser),
		compareLists(KindGroup, a.Passwd.Groups, b.Passwd.Groups, sameGroup),
		compareOne(KindKargs, sameKargs(from, to), len(from.KernelArguments) > 0, len(to.KernelArguments) > 0),
		compareOne(KindKernelType, kernelType(from) == kernelType(to), true, true),
		compareOne(KindExtensions, slices.Equal(sortedSet(from.Extensions), sortedSet(to.Extensions)),
			len(from.Extensions) > 0, len(to.Extensions) > 0),
		compareOne(KindOSImage, from.OSImage() == to.OSImage(), from.OSImageURL != "", to.OSImageURL != ""),
		compareOne(KindFIPS, from.FIPS == to.FIPS, from.FIPS, to.FIPS),
		compareLists(KindDirectory, a.Storage.Directories, b.Storage.Directories, sameDirectory),
		compareLists(KindLink, a.Storage.Links, b.Storage.Links, sameLink),
		compareLists(KindStorage, a.Storage.Disks, b.Storage.Disks, deepEqual[ign.Disk]),
		compareLists(KindStorage, a.Storage.Filesystems, b.Storage.Filesystems, deepEqual[ign.Filesystem]),
		compareLists(KindStorage, a.Storage.Raid, b.Storage.Raid, deepEqual[ign.Raid]),
		compareLists(KindStorage, a.Storage.Luks, b.Storage.Luks, deepEqual[ign.Luks]),
		compareOne(KindFirstBootKargs, sameFirstBootKargs(ka, kb),
			len(ka.ShouldExist)+len(ka.ShouldNotExist) > 0, len(kb.ShouldExist)+len(kb.ShouldNotExist) > 0),
		compareIgnition(a.Ignition, b.Ignition),
	)
}

func compareLists[T interface{ Key() string }](kind ChangeKind, from, to []T, same func(a, b T) bool) (cs Changes) {
	before := byKey(from)
	verbs := map[string]Verb{}
	for _, x := range to {
		old, had := before[x.Key()]
		delete(before, x.Key())
		switch {
		case !had:
			verbs[x.Key()] = Added
		case !same(old, x):
			verbs[x.Key()] = Changed
		}
	}
	for name := range before {
		verbs[name] = Removed
	}
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		cs = append(cs, Change{Kind: kind, Name: name, Verb: verbs[name]})
	}
	return cs
}

func byKey[T interface{ Key() string }](list []T) map[string]T {
	items := make(map[string]T, len(list))
	for _, x := range list {
		items[x.Key()] = x
	}
	return items
}

// compareOne is for a part that occurs at most once in a config.
func compareOne(kind ChangeKind, same, had, has bool) Changes {
	verb := Changed
	switch {
	case same:
		return nil
	case !had:
		verb = Added
	case !has:
		verb = Removed
	}
	return Changes{{Kind: kind, Verb: verb}}
}

func deepEqual[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

func sameFile(a, b ign.File) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	// A file without contents keeps those of the machine, and each attribute that it does not set.
	keeps := a.Contents.Source == nil
	if keeps != (b.Contents.Source == nil) || keeps && unsetIn(a.Mode, a.Node) != unsetIn(b.Mode, b.Node) {
		return false
	}
	return modeOr(a.Mode, 0o644) == modeOr(b.Mode, 0o644) && sameOwner(a.Node, b.Node) &&
		sameContents(a.Contents, b.Contents) && slices.EqualFunc(a.Append, b.Append, sameContents)
}

// unset says which attributes a file, directory or link of the machine keeps.
type unset struct{ mode, user, group bool }

func unsetIn(mode *int, n ign.Node) unset {
	said := func(id *int, name *string) bool { return id != nil || name != nil && *name != "" }
	return unset{mode: mode == nil, user: !said(n.User.ID, n.User.Name), group: !said(n.Group.ID, n.Group.Name)}
}

// sameContents compares contents however they are encoded, and remote ones by their hash.
func sameContents(a, b ign.Resource) bool {
	return reflect.DeepEqual(a, b) || machineconfig.SameContents(a, b)
}

func sameDirectory(a, b ign.Directory) bool {
	// With overwrite, the directory is made anew, and keeps nothing.
	keeps := func(d ign.Directory) unset {
		if d.Overwrite != nil && *d.Overwrite {
			return unset{}
		}
		return unsetIn(d.Mode, d.Node)
	}
	return modeOr(a.Mode, 0o755) == modeOr(b.Mode, 0o755) && sameOwner(a.Node, b.Node) && keeps(a) == keeps(b)
}

func sameLink(a, b ign.Link) bool {
	return isHard(a) == isHard(b) && sameOwner(a.Node, b.Node) && reflect.DeepEqual(a.Target, b.Target) &&
		(isHard(a) || unsetIn(nil, a.Node) == unsetIn(nil, b.Node))
}

// sameUnit reports whether a node does the same for two units. Empty contents are none, and the order of drop-ins has
// no meaning. An empty drop-in is a file, which hides the vendor's drop-in of this name. Only a new mask: false removes
// a mask that somebody set on the node, and only if the config does not have the file of the unit.
func sameUnit(old, u ign.Unit) bool {
	unmasks := func(u ign.Unit) bool { return u.Mask != nil && !*u.Mask && !hasFile(u) }
	text := func(u ign.Unit) string {
		if hasFile(u) {
			return *u.Contents
		}
		return ""
	}
	dropins := func(u ign.Unit) map[string]string {
		files := map[string]string{}
		for _, d := range u.Dropins {
			if d.Contents != nil {
				files[d.Name] = *d.Contents
			}
		}
		return files
	}
	return isTrue(old.Mask) == isTrue(u.Mask) && (unmasks(old) || !unmasks(u)) && text(old) == text(u) &&
		reflect.DeepEqual(old.Enabled, u.Enabled) && maps.Equal(dropins(old), dropins(u))
}

func sameUser(a, b ign.PasswdUser) bool {
	if userCreation(a) != userCreation(b) || exists(a.ShouldExist) != exists(b.ShouldExist) ||
		!sameList(a.SSHAuthorizedKeys, b.SSHAuthorizedKeys) || !sameSet(a.Groups, b.Groups) {
		return false
	}
	for _, u := range []*ign.PasswdUser{&a, &b} {
		u.System, u.NoCreateHome, u.NoLogInit, u.NoUserGroup, u.ShouldExist = nil, nil, nil, nil, nil
		u.SSHAuthorizedKeys, u.Groups = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

func sameGroup(a, b ign.PasswdGroup) bool {
	if groupCreation(a) != groupCreation(b) || exists(a.ShouldExist) != exists(b.ShouldExist) {
		return false
	}
	a.System, b.System, a.ShouldExist, b.ShouldExist = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

func sameSet(a, b []ign.Group) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func exists(b *bool) bool { return b == nil || *b }

func sameFirstBootKargs(a, b ign.KernelArguments) bool {
	return slices.Equal(a.ShouldExist, b.ShouldExist) && slices.Equal(a.ShouldNotExist, b.ShouldNotExist)
}

func modeOr(mode *int, otherwise int) int {
	if mode == nil {
		return otherwise
	}
	return *mode
}

func sameOwner(a, b ign.Node) bool {
	return owner(a.User.ID, a.User.Name) == owner(b.User.ID, b.User.Name) &&
		owner(a.Group.ID, a.Group.Name) == owner(b.Group.ID, b.Group.Name)
}

// account is a user or group by number or by name; zero is root.
type account struct {
	id   int
	name string
}

func owner(id *int, name *string) account {
	switch {
	case id != nil:
		return account{id: *id}
	case name != nil && *name != "root":
		return account{name: *name}
	}
	return account{}
}

func sameKargs(a, b machineconfig.Config) bool {
	return slices.Equal(machineconfig.SplitKargs(a.KernelArguments), machineconfig.SplitKargs(b.KernelArguments))
}

// kernelType replaces an empty one by the name of the default.
func kernelType(c machineconfig.Config) string {
	if c.KernelType == "" {
		return "default"
	}
	return c.KernelType
}

// compareIgnition compares Ignition's settings, in lexical order. The version is no difference, because every config is
// read as the newest version.
func compareIgnition(a, b ign.Ignition) (cs Changes) {
	part := func(name string, same, had, has bool) {
		for _, c := range compareOne(KindIgnition, same, had, has) {
			c.Name = name
			cs = append(cs, c)
		}
	}
	part("config.merge", slices.EqualFunc(a.Config.Merge, b.Config.Merge, sameContents), len(a.Config.Merge) > 0,
		len(b.Config.Merge) > 0)
	part("config.replace", sameContents(a.Config.Replace, b.Config.Replace), !isZero(a.Config.Replace),
		!isZero(b.Config.Replace))
	part("proxy", sameProxy(a.Proxy, b.Proxy), !isZero(a.Proxy), !isZero(b.Proxy))
	tlsA, tlsB := a.Security.TLS.CertificateAuthorities, b.Security.TLS.CertificateAuthorities
	part("security.tls", slices.EqualFunc(tlsA, tlsB, sameContents), len(tlsA) > 0, len(tlsB) > 0)
	part("timeouts", deepEqual(a.Timeouts, b.Timeouts), !isZero(a.Timeouts), !isZero(b.Timeouts))
	return cs
}

// IgnitionParts returns the names of Ignition's settings in a config, in lexical order, as changes of KindIgnition have
// them.
func IgnitionParts(i ign.Ignition) (names []string) {
	for _, c := range compareIgnition(ign.Ignition{}, i) {
		names = append(names, c.Name)
	}
	return names
}

// sameProxy ignores the order of noProxy.
func sameProxy(a, b ign.Proxy) bool {
	hosts := func(p ign.Proxy) []ign.NoProxyItem { return slices.Sorted(slices.Values(p.NoProxy)) }
	return deepEqual(a.HTTPProxy, b.HTTPProxy) && deepEqual(a.HTTPSProxy, b.HTTPSProxy) &&
		slices.Equal(hosts(a), hosts(b))
}

func isZero[T any](v T) bool { return reflect.ValueOf(v).IsZero() }

// Running returns the parts of two configs that a running node applies: their flat forms without the units that mount
// storage.filesystems. Only a first boot creates these file systems, and a node without them would not boot with such a
// unit. As the units do not change on a running node, neither result has them.
func Running(from, to machineconfig.Config) (a, b machineconfig.Config) {
	a, b = machineconfig.Flattened(from), machineconfig.Flattened(to)
	a.Ignition.Systemd.Units, b.Ignition.Systemd.Units = runningUnits(a.Ignition, b.Ignition)
	return a, b
}

func runningUnits(a, b ign.Config) (from, to []ign.Unit) {
	before, after := firstBootMounts(a), firstBootMounts(b)
	from = slices.DeleteFunc(slices.Clone(a.Systemd.Units), func(u ign.Unit) bool {
		return before[u.Name] || after[u.Name]
	})
	to = slices.DeleteFunc(slices.Clone(b.Systemd.Units), func(u ign.Unit) bool { return after[u.Name] })
	return from, to
}

// firstBootMounts returns the units that mount or swap on a device of the config's storage.filesystems.
func firstBootMounts(c ign.Config) map[string]bool {
	if len(c.Storage.Filesystems) == 0 {
		return nil
	}
	devices := byKey(c.Storage.Filesystems)
	mounts := map[string]bool{}
	for _, u := range c.Systemd.Units {
		isMount := strings.HasSuffix(u.Name, ".mount") || strings.HasSuffix(u.Name, ".swap")
		if !isMount || u.Contents == nil {
			continue
		}
		for line := range strings.Lines(*u.Contents) {
			key, value, _ := strings.Cut(line, "=")
			if _, made := devices[strings.TrimSpace(value)]; made && strings.TrimSpace(key) == "What" {
				mounts[u.Name] = true
			}
		}
	}
	return mounts
}

// unitChanges compares the results of Running for a unit that reaches running nodes.
func unitChanges(a, b ign.Config) Changes {
	all, live := compareLists(KindUnit, a.Systemd.Units, b.Systemd.Units, sameUnit), liveUnits(a, b)
	for _, c := range live {
		all = slices.DeleteFunc(all, func(o Change) bool { return o.Name == c.Name })
	}
	all = append(all, live...)
	slices.SortFunc(all, func(x, y Change) int { return strings.Compare(x.Name, y.Name) })
	return all
}

func liveUnits(a, b ign.Config) Changes {
	from, to := runningUnits(a, b)
	return compareLists(KindUnit, from, to, sameUnit)
}

// NewNodesOnlyPrefix begins Why in every refusal of NewNodesOnly. A program that prints it once for all removes it.
const NewNodesOnlyPrefix = "existing nodes will not get this: "

const (
	reasonAdded = NewNodesOnlyPrefix + "it is set up on first boot only; replace the nodes with new ones where you " +
		"need it"
	reasonDownloads = NewNodesOnlyPrefix + "their first boot is over; for their own downloads they use it from now on"
	reasonRemoved   = NewNodesOnlyPrefix + "what their first boot set up stays; replace the nodes with new ones to " +
		"remove it"
)

// NewNodesOnly returns the differences that only a first boot applies: disks, filesystems, raid, encrypted volumes, the
// units that mount these file systems, Ignition's own kernelArguments and settings (proxies, timeouts), and how
// accounts are created. They block no update (except with Overrides.OpenShift) and need no action.
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

// creation are settings that apply only when an account is created.
type creation struct{ system, noCreateHome, noLogInit, noUserGroup bool }

func userCreation(u ign.PasswdUser) creation {
	return creation{isTrue(u.System), isTrue(u.NoCreateHome), isTrue(u.NoLogInit), isTrue(u.NoUserGroup)}
}

func groupCreation(g ign.PasswdGroup) creation { return creation{system: isTrue(g.System)} }

func isTrue(b *bool) bool { return b != nil && *b }

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
