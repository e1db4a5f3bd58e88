package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// CheckedOnNode names what no repository knows and each node checks, as far as the new config asks for more of it than the old
// one: parts of the OS, accounts that the config names and does not make, their numbers, and what is in the place of links or behind
// hard links.
// Field is the item, Why the condition under which a node refuses the config.
func CheckedOnNode(from, to machineconfig.Config) (out []Refusal) {
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	before := nodeNeeds(from.Ignition)
	out = append(systemOnNode(from, to), numbersOnNode(from.Ignition.Passwd, to.Ignition.Passwd)...)
	for _, need := range nodeNeeds(to.Ignition) {
		if !slices.Contains(before, need) {
			out = append(out, need)
		}
	}
	return out
}

// systemOnNode names the changed parts of the OS that not every OS can change. A config without an image keeps the image of the
// node, so that no node refuses it.
func systemOnNode(from, to machineconfig.Config) (out []Refusal) {
	for _, part := range []struct {
		field   string
		changes bool
		who     string
	}{
		{"osImageURL", to.OSImageURL != "" && from.OSImageURL != to.OSImageURL, "neither rpm-ostree nor bootc"},
		{"kernelType", kernelType(from) != kernelType(to), "neither RHEL CoreOS nor CentOS Stream CoreOS"},
		{"kernelArguments", !slices.Equal(machineconfig.SplitKargs(from.KernelArguments), machineconfig.SplitKargs(to.KernelArguments)), "no rpm-ostree"},
		{"extensions", !slices.Equal(sortedSet(from.Extensions), sortedSet(to.Extensions)), "neither RHEL CoreOS nor CentOS Stream CoreOS"},
	} {
		if part.changes {
			out = append(out, OnNode(CheckSystem, part.field, "is checked on each node: a node that has "+part.who+" cannot change it and refuses the config"))
		}
	}
	return out
}

func sortedSet(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// numbersOnNode are accounts to which the new config gives a number and the old one gave none.
func numbersOnNode(from, to ign.Passwd) (out []Refusal) {
	type account struct{ kind, name string }
	known := map[account]bool{}
	for _, u := range from.Users {
		known[account{"user", u.Name}] = u.UID != nil
	}
	for _, g := range from.Groups {
		known[account{"group", g.Name}] = g.Gid != nil
	}
	check := func(kind, name, number string, value *int, there bool) {
		if value == nil || !there || known[account{kind, name}] {
			return // a number that changes is refused without asking a node
		}
		out = append(out, OnNode(CheckAccounts, kind+" "+name, fmt.Sprintf("%s %d is checked on each node, because the %[1]s of an existing %[3]s cannot change: a node that has the %[3]s with another %[1]s refuses the config", number, *value, kind)))
	}
	for _, u := range to.Users {
		check("user", u.Name, "uid", u.UID, exists(u.ShouldExist))
	}
	for _, g := range to.Groups {
		check("group", g.Name, "gid", g.Gid, exists(g.ShouldExist))
	}
	return out
}

// nodeNeeds lists what a config takes for given on a node, each once.
func nodeNeeds(c ign.Config) (out []Refusal) {
	need := func(check NodeCheck, field, why string) {
		if r := OnNode(check, field, why); !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for _, a := range accountsNamed(c) {
		need(CheckAccounts, string(a.Kind)+" "+a.Name, "is checked on each node: the config names it and does not make it, so a node without it refuses the config")
	}
	places := map[string]bool{}
	for _, p := range placesOf(c) {
		places[p.path] = true
	}
	for _, l := range c.Storage.Links {
		switch {
		case l.Target == nil:
		case isHard(l):
			if target := path.Clean(path.Join("/", *l.Target)); !places[target] {
				need(CheckPaths, "link "+l.Path, "is checked on each node: a node without the file "+target+" refuses the config")
			}
		case !isTrue(l.Overwrite):
			need(CheckPaths, "link "+l.Path, "is checked on each node: a node that has anything else there refuses the config, which does not say overwrite: true")
		}
	}
	return out
}

// Account is a user or group that a config names.
type Account struct {
	// Kind is KindUser or KindGroup.
	Kind ChangeKind
	// Name of the account.
	Name string
	// Field is where the config names it.
	Field string
}

// AccountsNamed lists the users and groups that a config names and does not make, so that a node has to have them.
func AccountsNamed(c machineconfig.Config) []Account {
	return accountsNamed(machineconfig.Flattened(c).Ignition)
}

func accountsNamed(c ign.Config) (out []Account) {
	users, groups := byKey(c.Passwd.Users), byKey(c.Passwd.Groups)
	user := func(name, field string) {
		if _, made := users[name]; name != "" && !made {
			out = append(out, Account{KindUser, name, field})
		}
	}
	group := func(name, field string) {
		_, made := groups[name]
		_, own := users[name] // a user's own group has its name
		if name != "" && name != "root" && !made && !own {
			out = append(out, Account{KindGroup, name, field})
		}
	}
	for _, n := range ownedNodes(c) {
		user(ownerName(n.User.ID, n.User.Name), n.Path)
		group(ownerName(n.Group.ID, n.Group.Name), n.Path)
	}
	for _, u := range c.Passwd.Users {
		for _, name := range groupsOf(u) {
			if exists(u.ShouldExist) && strings.Trim(name, "0123456789") != "" {
				group(name, "passwd.users "+u.Name)
			}
		}
	}
	return out
}

// ownedNodes are all paths of a config that have owners. Of a hard link, the file's counts.
func ownedNodes(c ign.Config) (all []ign.Node) {
	for _, d := range c.Storage.Directories {
		all = append(all, d.Node)
	}
	for _, f := range c.Storage.Files {
		all = append(all, f.Node)
	}
	for _, l := range c.Storage.Links {
		if !isHard(l) {
			all = append(all, l.Node)
		}
	}
	return all
}
