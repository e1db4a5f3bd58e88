package disruption

import (
	"fmt"
	"path"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/distribution"
)

// NodeCheck names a check that only the node's daemon can do, because the result depends on the host. The list is
// complete: all other refusals follow from the configs.
type NodeCheck string

// The checks of the daemon.
const (
	// CheckAccounts: which users and groups the node has, their numbers, and which are part of its image.
	CheckAccounts NodeCheck = "accounts"
	// CheckPaths: existing files of the node that no config created, and the targets of its links.
	CheckPaths NodeCheck = "paths"
	// CheckOwners: the owners of a path's parent directories and links, and of home directories. Otherwise a user of
	// the node could make the daemon write to files of another owner.
	CheckOwners NodeCheck = "owners"
	// CheckUnits: which units the node has, which a user masked, and which are two names of one. A node does not refuse
	// a config because of a unit that it lacks.
	CheckUnits NodeCheck = "units"
	// CheckSystem: which parts of the OS the node can change, and its installed OS.
	CheckSystem NodeCheck = "system"
	// CheckDisk: what stops the daemon from changing a path at this moment, such as a mount or a full file system.
	CheckDisk NodeCheck = "disk"
)

// OnNode returns a refusal that only the node's daemon can decide.
func OnNode(check NodeCheck, field, why string) Refusal {
	return Refusal{Field: field, Why: why, Check: check}
}

// Unreadable returns the refusal of a config that cannot be decoded or that a node must not receive.
func Unreadable(err error) []Refusal { return []Refusal{{Why: err.Error()}} }

// CheckedOnNode returns the requirements of the new config that only a node can check, and that the old one did not
// have: parts of the OS, accounts that the config uses but does not create, the numbers of accounts, units that it
// enables but does not create, and existing files at the paths of links. Field is the item, and Why the condition under
// which a node refuses the config, or leaves a unit disabled.
func CheckedOnNode(from, to machineconfig.Config) (out []Refusal) {
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	before := append(nodeNeeds(from.Ignition), UnreadKeysOf(from.Ignition).refusals()...)
	out = append(systemOnNode(from, to), numbersOnNode(from.Ignition.Passwd, to.Ignition.Passwd)...)
	for _, need := range append(nodeNeeds(to.Ignition), UnreadKeysOf(to.Ignition).refusals()...) {
		if !slices.Contains(before, need) {
			out = append(out, need)
		}
	}
	return out
}

// systemOnNode returns the changed parts of the OS that not every OS can change. Without an image, the node's own
// stays, so no node refuses it.
func systemOnNode(from, to machineconfig.Config) (out []Refusal) {
	for _, part := range []struct {
		field   string
		changes bool
		means   []string
	}{
		{"osImageURL", to.OSImageURL != "" && from.OSImage() != to.OSImage(), []string{"rpm-ostree", "bootc"}},
		{"kernelType", kernelType(from) != kernelType(to), []string{"RHEL CoreOS", "CentOS Stream CoreOS"}},
		{"kernelArguments", !sameKargs(from, to), distribution.ArgumentTools()},
		{
			"extensions", !slices.Equal(sortedSet(from.Extensions), sortedSet(to.Extensions)),
			[]string{"RHEL CoreOS", "CentOS Stream CoreOS"},
		},
	} {
		if last := len(part.means) - 1; part.changes {
			out = append(out, continued(OnNode(CheckSystem, part.field, "needs "+
				strings.Join(part.means[:last], ", ")+" or "+part.means[last]+
				" on each node; a node without any of them refuses the config and is not drained")))
		}
	}
	for _, a := range distribution.OddArguments(machineconfig.SplitKargs(from.KernelArguments),
		machineconfig.SplitKargs(to.KernelArguments)) {
		out = append(out,
			continued(OnNode(CheckSystem, "kernelArguments "+a, "needs rpm-ostree on each node; a node without "+
				"it refuses the config, "+distribution.PlainOnly)))
	}
	return out
}

// continued marks a refusal whose Why continues the sentence that begins with Field.
func continued(r Refusal) Refusal {
	r.Continues = true
	return r
}

func sortedSet(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// numbersOnNode returns the accounts whose number only the new config sets.
func numbersOnNode(from, to ign.Passwd) (out []Refusal) {
	type account struct{ kind, name string }
	known := map[account]bool{}
	for _, u := range from.Users {
		known[account{"user", u.Name}] = u.UID != nil
	}
	for _, g := range from.Groups {
		known[account{"group", g.Name}] = g.Gid != nil
	}
	check := func(kind, name, number string, value *int) {
		if value == nil || known[account{kind, name}] {
			return // The function Refuse handles a number that changes.
		}
		out = append(out, OnNode(CheckAccounts, kind+" "+name, fmt.Sprintf("each node checks %s %d, because the "+
			"%[1]s of an existing %[3]s cannot change. A node that has the %[3]s with another %[1]s refuses the config",
			number, *value, kind)))
	}
	for _, u := range to.Users {
		if exists(u.ShouldExist) {
			check("user", u.Name, "uid", u.UID)
		}
	}
	for _, g := range to.Groups {
		if exists(g.ShouldExist) {
			check("group", g.Name, "gid", g.Gid)
		}
	}
	return out
}

// nodeNeeds lists each requirement once.
func nodeNeeds(c ign.Config) (out []Refusal) {
	need := func(check NodeCheck, field, why string) {
		if r := continued(OnNode(check, field, why)); !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for _, a := range accountsNamed(c) {
		need(CheckAccounts, string(a.Kind)+" "+a.Name, "is checked on each node: the config uses it and does not "+
			"create it, so a node without it refuses the config")
	}
	own := map[string]bool{}
	for _, p := range managedPaths(c) {
		own[p.path] = true
	}
	for _, name := range unitsNamed(c, own) {
		need(CheckUnits, "unit "+name, "is checked on each node: the unit must exist there with an [Install] section, "+
			"because the config enables it and does not create it. A node without it leaves it disabled, and "+
			"a node on which it is masked by hand refuses the config")
	}
	for _, l := range c.Storage.Links {
		switch {
		case l.Target == nil:
		case isHard(l):
			if target := path.Clean(path.Join("/", *l.Target)); !own[target] {
				need(CheckPaths, "link "+l.Path, "is checked on each node: a node without the file "+target+
					", or with it on another file system, refuses the config")
			}
		case !isTrue(l.Overwrite):
			need(CheckPaths, "link "+l.Path, "is checked on each node: a node that has anything else there refuses "+
				"the config, because overwrite: true is not set")
		}
	}
	return out
}

// unitDirs: here systemd finds units of the system.
var unitDirs = []string{
	"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
	"/lib/systemd/system",
}

// unitsNamed lists the units that a config enables and does not create. own has the paths that it writes.
func unitsNamed(c ign.Config, own map[string]bool) (out []string) {
	created := map[string]bool{}
	for _, u := range c.Systemd.Units {
		created[u.Name] = deref(u.Contents) != ""
	}
	for _, u := range c.Systemd.Units {
		template := u.Name
		if base, instance, is := strings.Cut(u.Name, "@"); is {
			template = base + "@" + path.Ext(instance)
		}
		isOwn := slices.ContainsFunc(unitDirs, func(dir string) bool {
			return own[dir+"/"+u.Name] || own[dir+"/"+template]
		})
		if isTrue(u.Enabled) && !isTrue(u.Mask) && !created[u.Name] && !created[template] && !isOwn {
			out = append(out, u.Name)
		}
	}
	return out
}

// Account is a user or group that a config uses.
type Account struct {
	Kind ChangeKind
	Name string
	// Field uses the account.
	Field string
}

// AccountsNamed lists the users and groups that a config uses and does not create, so that a node must have them.
func AccountsNamed(c machineconfig.Config) []Account {
	return accountsNamed(machineconfig.Flattened(c).Ignition)
}

func accountsNamed(c ign.Config) (out []Account) {
	users, groups := byKey(c.Passwd.Users), byKey(c.Passwd.Groups)
	user := func(name, field string) {
		if _, created := users[name]; name != "" && !created {
			out = append(out, Account{KindUser, name, field})
		}
	}
	group := func(name, field string) {
		_, created := groups[name]
		_, own := users[name] // A user's own group has the name of the user.
		if name != "" && name != "root" && !created && !own {
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

// ownedNodes returns all paths of a config that have owners. A hard link has that of its file.
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

// ValidAccount reports whether a name is valid for a user or group.
func ValidAccount(name string) bool { return accountName.MatchString(name) }

// invalidNameText is about useradd and groupadd.
const invalidNameText = "the name is not valid for a %s: use letters, digits, _, - and ., at most 32"

// maxID: the next one, -1 in 32 bits, means "unchanged" to the kernel.
const maxID = 1<<32 - 2

// invalidID refuses a number that no user or group can have: fchown would take it for another one.
func invalidID(field string, kind ChangeKind, name, part string, id *int) []Refusal {
	if id == nil || *id >= 0 && int64(*id) <= maxID {
		return nil
	}
	return []Refusal{{
		Field: field, Why: fmt.Sprintf("%s %d does not exist: write a number from 0 to "+
			"%d", part, *id, int64(maxID)), Kind: kind,
		Name: name, Part: part,
	}}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func groupsOf(u ign.PasswdUser) (names []string) {
	if primary := deref(u.PrimaryGroup); primary != "" {
		names = append(names, primary)
	}
	for _, g := range u.Groups {
		names = append(names, string(g))
	}
	return names
}

// ownerName is "" for root and for owners by number.
func ownerName(id *int, name *string) string {
	if id != nil || name == nil || *name == "root" {
		return ""
	}
	return *name
}
