package lineage

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/coreos/ignition/v2/config/util"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/internal/disruption"
)

type list struct {
	// in the config, without `$.`
	path string
	// common to lists whose items replace each other
	family string
	kind   disruption.ChangeKind
	// the field with the items' names
	key string
	// of the attributes' names: devices in several lists are of one kind and may have the same name
	prefix string
	keys   func(ign.Config) []string
	// a config with one item alone
	cut func(ign.Config, int) ign.Config
	// the list's only item, if there is one
	item func(ign.Config) (reflect.Value, bool)
}

// nodes: the family of paths
const nodes = "node"

// lists: those with keys
var lists = []list{
	listOf("storage.files:path", nodes, disruption.KindFile,
		func(c *ign.Config) *[]ign.File { return &c.Storage.Files }),
	listOf("storage.directories:path", nodes, disruption.KindDirectory, func(c *ign.Config) *[]ign.Directory {
		return &c.Storage.Directories
	}),
	listOf("storage.links:path", nodes, disruption.KindLink,
		func(c *ign.Config) *[]ign.Link { return &c.Storage.Links }),
	listOf("systemd.units:name", "unit", disruption.KindUnit,
		func(c *ign.Config) *[]ign.Unit { return &c.Systemd.Units }),
	listOf("passwd.users:name", "user", disruption.KindUser, func(c *ign.Config) *[]ign.PasswdUser {
		return &c.Passwd.Users
	}),
	listOf("passwd.groups:name", "group", disruption.KindGroup, func(c *ign.Config) *[]ign.PasswdGroup {
		return &c.Passwd.Groups
	}),
	listOf("storage.disks:device", "disk", disruption.KindStorage, func(c *ign.Config) *[]ign.Disk {
		return &c.Storage.Disks
	}),
	listOf("storage.filesystems:device", "filesystem", disruption.KindStorage, func(c *ign.Config) *[]ign.Filesystem {
		return &c.Storage.Filesystems
	}),
	listOf("storage.raid:name", "raid", disruption.KindStorage,
		func(c *ign.Config) *[]ign.Raid { return &c.Storage.Raid }),
	listOf("storage.luks:name", "luks", disruption.KindStorage,
		func(c *ign.Config) *[]ign.Luks { return &c.Storage.Luks }),
	whole("kernelArguments", disruption.KindFirstBootKargs, func(c *ign.Config) *ign.KernelArguments {
		return &c.KernelArguments
	}),
	whole("ignition", disruption.KindIgnition, func(c *ign.Config) *ign.Ignition { return &c.Ignition }),
}

// listOf returns a list by its path, a colon and the key field of its items.
func listOf[T util.Keyed](path, family string, kind disruption.ChangeKind, of func(*ign.Config) *[]T) list {
	path, key, _ := strings.Cut(path, ":")
	l := list{path: path, key: key, family: family, kind: kind}
	if kind == disruption.KindStorage {
		l.prefix = family + "."
	}
	l.keys = func(c ign.Config) (keys []string) {
		for _, x := range *of(&c) {
			keys = append(keys, x.Key())
		}
		return keys
	}
	l.cut = func(c ign.Config, i int) (part ign.Config) {
		*of(&part) = []T{(*of(&c))[i]}
		return part
	}
	l.item = func(c ign.Config) (reflect.Value, bool) {
		items := *of(&c)
		if len(items) == 0 {
			return reflect.Value{}, false
		}
		return reflect.ValueOf(items[0]), true
	}
	return l
}

// whole is a part of a config that is one item without a name.
func whole[T any](path string, kind disruption.ChangeKind, of func(*ign.Config) *T) list {
	empty := func(c ign.Config) bool {
		c.Ignition.Version = ""
		return reflect.ValueOf(*of(&c)).IsZero()
	}
	return list{
		path: path, key: "version", family: path, kind: kind,
		keys: func(c ign.Config) []string {
			if empty(c) {
				return nil
			}
			return []string{""}
		},
		cut: func(c ign.Config, _ int) (part ign.Config) {
			c.Ignition.Version = ""
			*of(&part) = *of(&c)
			return part
		},
		item: func(c ign.Config) (reflect.Value, bool) { return reflect.ValueOf(*of(&c)), !empty(c) },
	}
}

// root returns the path of an item in a config.
func (l list) root(index int) string {
	if l.family == l.path {
		return "$." + l.path
	}
	return fmt.Sprintf("$.%s.%d", l.path, index)
}
