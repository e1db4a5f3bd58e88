package disruption

import (
	"maps"
	"reflect"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

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
		compareOne(KindExtensions, slices.Equal(from.Extensions, to.Extensions), len(from.Extensions) > 0,
			len(to.Extensions) > 0),
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

// compareLists returns the differences between two lists by the keys of their items, in lexical order.
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

// byKey returns the items of a list by their keys.
func byKey[T interface{ Key() string }](list []T) map[string]T {
	items := make(map[string]T, len(list))
	for _, x := range list {
		items[x.Key()] = x
	}
	return items
}

// compareOne returns the difference of a part that occurs at most once in a config.
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
	return modeOr(a.Mode, 0o644) == modeOr(b.Mode, 0o644) && sameOwner(a.Node, b.Node) &&
		sameContents(a.Contents, b.Contents) && slices.EqualFunc(a.Append, b.Append, sameContents)
}

// sameContents compares two contents, however they are encoded, and remote contents by their hash.
func sameContents(a, b ign.Resource) bool {
	return reflect.DeepEqual(a, b) || machineconfig.SameContents(a, b)
}

func sameDirectory(a, b ign.Directory) bool {
	return modeOr(a.Mode, 0o755) == modeOr(b.Mode, 0o755) && sameOwner(a.Node, b.Node)
}

func sameLink(a, b ign.Link) bool {
	return isHard(a) == isHard(b) && sameOwner(a.Node, b.Node) && reflect.DeepEqual(a.Target, b.Target)
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

// sameSet compares lists whose order has no meaning.
func sameSet(a, b []ign.Group) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// exists returns shouldExist, which defaults to true.
func exists(b *bool) bool { return b == nil || *b }

func sameFirstBootKargs(a, b ign.KernelArguments) bool {
	return slices.Equal(a.ShouldExist, b.ShouldExist) && slices.Equal(a.ShouldNotExist, b.ShouldNotExist)
}

// modeOr returns a mode, or the default if the config sets none.
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

// account identifies a user or group by number or by name; the zero value is root.
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

// kernelType returns the kernel type; for an empty one, the name of the default.
func kernelType(c machineconfig.Config) string {
	if c.KernelType == "" {
		return "default"
	}
	return c.KernelType
}
