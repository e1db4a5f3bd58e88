package disruption

import (
	"fmt"
	"path"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// ValidAccount reports whether a name is valid for a user or group.
func ValidAccount(name string) bool { return accountName.MatchString(name) }

// invalidNameText is the message for an account name that useradd or groupadd rejects.
const invalidNameText = "the name is not valid for a %s: use letters, digits, _, - and ., at most 32"

// maxID is the largest number of a user or group. The next one, -1 in 32 bits, means "unchanged" to the kernel.
const maxID = 1<<32 - 2

// invalidID refuses a number that no user or group can have. fchown would take it for another one.
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

// invalidOwners refuses paths with an owner that cannot exist.
func invalidOwners(c ign.Config) (all []Refusal) {
	check := func(kind ChangeKind, list string, n ign.Node) {
		field := "storage." + list + " " + n.Path
		all = append(all, invalidID(field, kind, n.Path, "user.id", n.User.ID)...)
		all = append(all, invalidID(field, kind, n.Path, "group.id", n.Group.ID)...)
	}
	for _, d := range c.Storage.Directories {
		check(KindDirectory, "directories", d.Node)
	}
	for _, f := range c.Storage.Files {
		check(KindFile, "files", f.Node)
	}
	for _, l := range c.Storage.Links {
		check(KindLink, "links", l.Node)
	}
	return all
}

// invalidAccounts refuses users and groups that cannot exist on any machine.
func invalidAccounts(p ign.Passwd) (all []Refusal) {
	removed := map[string]bool{}
	for _, g := range p.Groups {
		field := "passwd.groups " + g.Name
		removed[g.Name] = !exists(g.ShouldExist)
		all = append(all, invalidID(field, KindGroup, g.Name, "gid", g.Gid)...)
		switch {
		case !ValidAccount(g.Name):
			all = append(all, Refusal{
				Field: field, Why: fmt.Sprintf(invalidNameText, "group"), Kind: KindGroup,
				Name: g.Name,
			})
		case removed[g.Name] && g.Name == "root":
			all = append(all, Refusal{
				Field: field, Why: "a node cannot run without this group: remove shouldExist",
				Kind: KindGroup, Name: g.Name,
			})
		}
	}
	for _, u := range p.Users {
		all = append(all, invalidID("passwd.users "+u.Name, KindUser, u.Name, "uid", u.UID)...)
		for _, r := range invalidUser(u, removed) {
			r.Kind, r.Name = KindUser, u.Name
			all = append(all, r)
		}
	}
	return all
}

// invalidUser refuses the parts of a user that cannot exist on any machine.
func invalidUser(u ign.PasswdUser, removedGroups map[string]bool) (all []Refusal) {
	field := "passwd.users " + u.Name
	switch {
	case !ValidAccount(u.Name):
		return []Refusal{{Field: field, Why: fmt.Sprintf(invalidNameText, "user")}}
	case !exists(u.ShouldExist) && u.Name == "root":
		return []Refusal{{Field: field, Why: "a node cannot run without root: remove shouldExist"}}
	case !exists(u.ShouldExist):
		return nil
	}
	if home := deref(u.HomeDir); home != "" && (!path.IsAbs(home) || path.Clean(home) != home) {
		all = append(all, Refusal{Field: field + " homeDir", Why: "it is not an absolute, clean path: write one " +
			"like /home/" + u.Name})
	}
	for _, f := range []struct {
		name  string
		value *string
	}{{"gecos", u.Gecos}, {"homeDir", u.HomeDir}, {"shell", u.Shell}, {"passwordHash", u.PasswordHash}} {
		if strings.ContainsAny(deref(f.value), ":\n\r\x00") {
			all = append(all, Refusal{Field: field + " " + f.name, Why: "it contains a colon or a line break, which " +
				"/etc/passwd cannot hold: remove it"})
		}
	}
	for _, g := range groupsOf(u) {
		if removedGroups[g] {
			all = append(all, Refusal{Field: field, Why: fmt.Sprintf("the config removes group %q, of which the user "+
				"is a member: keep the group, or remove it from the user's groups", g)})
		}
	}
	return all
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// groupsOf returns the groups of a user in a config.
func groupsOf(u ign.PasswdUser) (names []string) {
	if primary := deref(u.PrimaryGroup); primary != "" {
		names = append(names, primary)
	}
	for _, g := range u.Groups {
		names = append(names, string(g))
	}
	return names
}

// removedOwners refuses paths whose owner the config removes.
func removedOwners(c ign.Config) (all []Refusal) {
	users, groups := map[string]bool{}, map[string]bool{}
	for _, u := range c.Passwd.Users {
		users[u.Name] = !exists(u.ShouldExist)
	}
	for _, g := range c.Passwd.Groups {
		groups[g.Name] = !exists(g.ShouldExist)
	}
	check := func(kind ChangeKind, list string, n ign.Node) {
		field := "storage." + list + " " + n.Path
		if name := ownerName(n.User.ID, n.User.Name); users[name] {
			all = append(all,
				Refusal{Field: field, Why: fmt.Sprintf("the config removes user %q, its owner: keep the user, or set "+
					"another owner", name), Kind: kind, Name: n.Path})
		}
		if name := ownerName(n.Group.ID, n.Group.Name); groups[name] {
			all = append(all,
				Refusal{Field: field, Why: fmt.Sprintf("the config removes group %q, its owner: keep the group, or "+
					"set another one", name), Kind: kind, Name: n.Path})
		}
	}
	for _, d := range c.Storage.Directories {
		check(KindDirectory, "directories", d.Node)
	}
	for _, f := range c.Storage.Files {
		check(KindFile, "files", f.Node)
	}
	for _, l := range c.Storage.Links {
		if !isHard(l) {
			check(KindLink, "links", l.Node)
		}
	}
	return all
}

// ownerName returns the name of an owner; "" for root and for owners by number.
func ownerName(id *int, name *string) string {
	if id != nil || name == nil || *name == "root" {
		return ""
	}
	return *name
}
