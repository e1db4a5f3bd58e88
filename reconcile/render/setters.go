package render

import (
	"slices"
	"strconv"

	"github.com/coreos/ignition/v2/config/util"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
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

// setBy maps each item to the inputs that set it. The inputs are indexes in the order of merging.
type setBy map[item][]int

// setters returns the items that more than one input sets.
func setters(inputs []Input) setBy {
	all := setBy{}
	for i, in := range inputs {
		keys := take(in.Config.Ignition).keys()
		for list, of := range keys {
			for _, k := range of {
				at := item{listTable[list].space, k}
				all[at] = append(all[at], i)
			}
		}
	}
	for at, by := range all {
		if len(by) < 2 {
			delete(all, at)
		}
	}
	return all
}

// item is one key of a list. For lists that share their keys, item.space is the index of the first of these lists.
type item struct {
	space int
	key   string
}

// only returns the lists with only those items that are in the set.
func (s setBy) only(all lists) lists {
	return lists{
		files:       among(s, listFiles, all.files),
		directories: among(s, listDirectories, all.directories),
		links:       among(s, listLinks, all.links),
		units:       among(s, listUnits, all.units),
		users:       among(s, listUsers, all.users),
		groups:      among(s, listGroups, all.groups),
	}
}

func among[T util.Keyed](s setBy, list int, items []T) []T {
	return slices.DeleteFunc(slices.Clone(items), func(x T) bool {
		return s[item{listTable[list].space, x.Key()}] == nil
	})
}

// contested returns a config with only those items that more than one input sets. All other items were validated in
// their inputs.
func (s setBy) contested(c machineconfig.Config) machineconfig.Config {
	c.Ignition = s.only(take(c.Ignition)).into(c.Ignition)
	// The nested configs must be kept, because they are merged into all items.
	c.Ignition.Ignition.Config = ign.IgnitionConfig{}
	return c
}

// statements returns for each item the attributes from each of its setters, in the order of merging.
func (s setBy) statements(inputs []Input) map[item][]said {
	all := map[item][]said{}
	for _, in := range inputs {
		some := s.only(take(in.Config.Ignition))
		state(all, listFiles, some.files, fileSays)
		state(all, listDirectories, some.directories, directorySays)
		state(all, listLinks, some.links, linkSays)
		state(all, listUnits, some.units, unitSays)
		state(all, listUsers, some.users, userSays)
		state(all, listGroups, some.groups, groupSays)
	}
	return all
}

func userSays(u ign.PasswdUser) (s said) {
	s.text(RuleSameUser, "passwordHash", u.PasswordHash)
	s.number(RuleSameUser, "uid", u.UID)
	s.text(RuleSameUser, "gecos", u.Gecos)
	s.text(RuleSameUser, "homeDir", u.HomeDir)
	s.text(RuleSameUser, "primaryGroup", u.PrimaryGroup)
	s.text(RuleSameUser, "shell", u.Shell)
	s.flag(RuleSameUser, "shouldExist", u.ShouldExist)
	return s
}

func unitSays(u ign.Unit) (s said) {
	s.text(RuleSameUnit, "contents", u.Contents)
	s.flag(RuleSameUnit, "enabled", u.Enabled)
	s.flag(RuleSameUnit, "mask", u.Mask)
	for _, d := range u.Dropins {
		s.text(RuleDropinReplaced, "drop-in "+d.Name, d.Contents)
	}
	switch {
	case u.Mask != nil && *u.Mask:
		s.add(RuleDropinReplaced, maskAttribute, "masked")
	case len(u.Dropins) > 0:
		s.add(RuleDropinReplaced, maskAttribute, "used")
	}
	return s
}

func linkSays(l ign.Link) (s said) {
	s.node(RuleSameLink, "link", l.Node)
	s.text(RuleSameLink, "target", l.Target)
	s.flag(RuleSameLink, "hard", l.Hard)
	return s
}

func groupSays(g ign.PasswdGroup) (s said) {
	s.number(RuleSameGroup, "gid", g.Gid)
	s.text(RuleSameGroup, "passwordHash", g.PasswordHash)
	s.flag(RuleSameGroup, "shouldExist", g.ShouldExist)
	return s
}

// fileSays lists the attributes that an input sets for a file. The functions with a name that ends in Says do the same
// for the items of other lists.
func fileSays(f ign.File) (s said) {
	s.node(RuleSameFile, "file", f.Node)
	s.number(RuleSameFile, "mode", f.Mode)
	if f.Contents.Source != nil {
		value := *f.Contents.Source
		if data, err := machineconfig.Contents(f.Contents); err == nil {
			value = string(data) // The value is the decoded contents.
		}
		s.add(RuleSameFile, "contents", value)
	}
	return s
}

func directorySays(d ign.Directory) (s said) {
	s.node(RuleSameDirectory, "directory", d.Node)
	s.number(RuleSameDirectory, "mode", d.Mode)
	return s
}

func state[T util.Keyed](all map[item][]said, list int, items []T, says func(T) said) {
	for _, x := range items {
		at := item{listTable[list].space, x.Key()}
		all[at] = append(all[at], says(x))
	}
}

// attribute is an attribute of an item that a later input replaces.
type attribute struct{ rule, name, value string }

// said has the attributes that one input sets for one item.
type said []attribute

func (s *said) add(rule, name, value string) { *s = append(*s, attribute{rule, name, value}) }

func (s *said) text(rule, name string, value *string) {
	if value != nil {
		s.add(rule, name, *value)
	}
}

func (s *said) number(rule, name string, value *int) {
	if value != nil {
		s.add(rule, name, strconv.Itoa(*value))
	}
}

func (s *said) flag(rule, name string, value *bool) {
	if value != nil {
		s.add(rule, name, strconv.FormatBool(*value))
	}
}

// kindAttribute is the attribute for the kind of a path. maskAttribute is the attribute that says whether a unit's
// drop-ins have an effect.
const (
	kindAttribute = "kind"
	maskAttribute = "drop-ins"
)

// node adds the kind and the owners of a path. The name and the number of an owner are two forms of the same attribute.
func (s *said) node(rule, kind string, n ign.Node) {
	s.add(RuleSamePath, kindAttribute, kind)
	s.text(rule, "user", n.User.Name)
	s.number(rule, "user", n.User.ID)
	s.text(rule, "group", n.Group.Name)
	s.number(rule, "group", n.Group.ID)
}
