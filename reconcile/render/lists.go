package render

import (
	"github.com/coreos/ignition/v2/config/util"
	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

// lists are the lists of an Ignition config that are merged item by item. Nearly all content of a config is in these
// lists.
type lists struct {
	files       []ign.File
	directories []ign.Directory
	links       []ign.Link
	units       []ign.Unit
	users       []ign.PasswdUser
	groups      []ign.PasswdGroup
}

// The index of each list in arrays with one element for each list.
const (
	listFiles = iota
	listDirectories
	listLinks
	listUnits
	listUsers
	listGroups
	listCount
)

// listTable has the path of each list in a config, the kind of its items, and the lists with which it shares keys: a
// path is a file, a directory or a link.
var listTable = [listCount]struct {
	section, name, key string
	kind               disruption.ChangeKind
	space              int
}{
	listFiles:       {"storage", "files", "path", disruption.KindFile, listFiles},
	listDirectories: {"storage", "directories", "path", disruption.KindDirectory, listFiles},
	listLinks:       {"storage", "links", "path", disruption.KindLink, listFiles},
	listUnits:       {"systemd", "units", "name", disruption.KindUnit, listUnits},
	listUsers:       {"passwd", "users", "name", disruption.KindUser, listUsers},
	listGroups:      {"passwd", "groups", "name", disruption.KindGroup, listGroups},
}

// take returns the lists of a config. The lists and the config share their items.
func take(c ign.Config) lists {
	return lists{
		c.Storage.Files, c.Storage.Directories, c.Storage.Links, c.Systemd.Units, c.Passwd.Users,
		c.Passwd.Groups,
	}
}

// into returns the config with these lists.
func (l lists) into(c ign.Config) ign.Config {
	c.Storage.Files, c.Storage.Directories, c.Storage.Links = l.files, l.directories, l.links
	c.Systemd.Units = l.units
	c.Passwd.Users, c.Passwd.Groups = l.users, l.groups
	return c
}

func withoutLists(c ign.Config) ign.Config { return lists{}.into(c) }

// keys returns the keys of each list.
func (l lists) keys() [listCount][]string {
	return [listCount][]string{
		keys(nil, l.files), keys(nil, l.directories), keys(nil, l.links), keys(nil, l.units), keys(nil, l.users),
		keys(nil, l.groups),
	}
}

// keys appends the keys of a list's items to a slice.
func keys[T util.Keyed](to []string, list []T) []string {
	for _, x := range list {
		to = append(to, x.Key())
	}
	return to
}
