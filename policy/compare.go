package policy

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Compare returns every difference between two configs that a machine could notice. A file whose bytes, mode and owner
// stay is not changed, however its contents are encoded; nor does the order of a list count where it has no meaning. The
// image of extensions is no difference by itself: it is looked at only when the OS changes.
func Compare(from, to machineconfig.Config) Changes {
	var cs Changes
	a, b := from.Ignition, to.Ignition
	cs = keyed(cs, KindFile, a.Storage.Files, b.Storage.Files, sameFile)
	cs = keyed(cs, KindUnit, a.Systemd.Units, b.Systemd.Units, deepEqual[ign.Unit])
	cs = keyed(cs, KindUser, a.Passwd.Users, b.Passwd.Users, deepEqual[ign.PasswdUser])
	cs = keyed(cs, KindGroup, a.Passwd.Groups, b.Passwd.Groups, deepEqual[ign.PasswdGroup])
	cs = one(cs, KindKargs, !slices.Equal(machineconfig.SplitKargs(from.KernelArguments), machineconfig.SplitKargs(to.KernelArguments)), len(from.KernelArguments) > 0, len(to.KernelArguments) > 0)
	cs = one(cs, KindKernelType, kernelType(from) != kernelType(to), true, true)
	cs = one(cs, KindExtensions, !slices.Equal(from.Extensions, to.Extensions), len(from.Extensions) > 0, len(to.Extensions) > 0)
	cs = one(cs, KindOSImage, from.OSImageURL != to.OSImageURL, from.OSImageURL != "", to.OSImageURL != "")
	cs = one(cs, KindFIPS, from.FIPS != to.FIPS, from.FIPS, to.FIPS)
	cs = keyed(cs, KindDirectory, a.Storage.Directories, b.Storage.Directories, deepEqual[ign.Directory])
	cs = keyed(cs, KindLink, a.Storage.Links, b.Storage.Links, deepEqual[ign.Link])
	cs = keyed(cs, KindStorage, a.Storage.Disks, b.Storage.Disks, deepEqual[ign.Disk])
	cs = keyed(cs, KindStorage, a.Storage.Filesystems, b.Storage.Filesystems, deepEqual[ign.Filesystem])
	cs = keyed(cs, KindStorage, a.Storage.Raid, b.Storage.Raid, deepEqual[ign.Raid])
	cs = keyed(cs, KindStorage, a.Storage.Luks, b.Storage.Luks, deepEqual[ign.Luks])
	ka, kb := a.KernelArguments, b.KernelArguments
	return one(cs, KindFirstBootKargs, !slices.Equal(ka.ShouldExist, kb.ShouldExist) || !slices.Equal(ka.ShouldNotExist, kb.ShouldNotExist),
		len(ka.ShouldExist)+len(ka.ShouldNotExist) > 0, len(kb.ShouldExist)+len(kb.ShouldNotExist) > 0)
}

// keyed appends the differences of two lists whose items have keys, in lexical order.
func keyed[T interface{ Key() string }](cs Changes, kind ChangeKind, from, to []T, same func(a, b T) bool) Changes {
	before := make(map[string]T, len(from))
	for _, x := range from {
		before[x.Key()] = x
	}
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

// one appends the difference of a thing of which there is one.
func one(cs Changes, kind ChangeKind, differs, had, has bool) Changes {
	verb := Changed
	switch {
	case !differs:
		return cs
	case !had:
		verb = Added
	case !has:
		verb = Removed
	}
	return append(cs, Change{Kind: kind, Verb: verb})
}

func deepEqual[T any](a, b T) bool { return reflect.DeepEqual(a, b) }

func sameFile(a, b ign.File) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	if fileMode(a) != fileMode(b) || owner(a.User.ID, a.User.Name) != owner(b.User.ID, b.User.Name) ||
		owner(a.Group.ID, a.Group.Name) != owner(b.Group.ID, b.Group.Name) || !reflect.DeepEqual(a.Append, b.Append) {
		return false
	}
	x, errA := machineconfig.Contents(a.Contents)
	y, errB := machineconfig.Contents(b.Contents)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// fileMode is the mode that a file gets: 0644 when none is given.
func fileMode(f ign.File) int {
	if f.Mode == nil {
		return 0o644
	}
	return *f.Mode
}

// account is a user or group by number or by name; the zero value is root.
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

// kernelType spells the default kernel one way.
func kernelType(c machineconfig.Config) string {
	if c.KernelType == "" {
		return "default"
	}
	return c.KernelType
}
