package policy

import (
	"fmt"
	"path"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// ValidAccount reports that a machine takes the name for a user or group.
func ValidAccount(name string) bool { return accountName.MatchString(name) }

// invalidAccounts refuses users and groups that no machine can have.
func invalidAccounts(p ign.Passwd) (all []Refusal) {
	refuse := func(kind ChangeKind, name, field, why string) {
		all = append(all, Refusal{Field: field, Why: why, Kind: kind, Name: name})
	}
	gone := map[string]bool{}
	for _, g := range p.Groups {
		field := "passwd.groups " + g.Name
		gone[g.Name] = !exists(g.ShouldExist)
		switch {
		case !ValidAccount(g.Name):
			refuse(KindGroup, g.Name, field, "this is no name of a group that a machine takes: letters, digits, _, - and ., at most 32")
		case gone[g.Name] && g.Name == "root":
			refuse(KindGroup, g.Name, field, "a node without this group does not run: remove shouldExist")
		}
	}
	for _, u := range p.Users {
		field := "passwd.users " + u.Name
		switch {
		case !ValidAccount(u.Name):
			refuse(KindUser, u.Name, field, "this is no name of a user that a machine takes: letters, digits, _, - and ., at most 32")
			continue
		case !exists(u.ShouldExist) && u.Name == "root":
			refuse(KindUser, u.Name, field, "a node without root does not run: remove shouldExist")
		}
		if !exists(u.ShouldExist) {
			continue
		}
		if home := u.HomeDir; home != nil && *home != "" && (!path.IsAbs(*home) || path.Clean(*home) != *home) {
			refuse(KindUser, u.Name, field+" homeDir", "it is not an absolute, clean path: write one like /home/"+u.Name)
		}
		for _, f := range []struct {
			name  string
			value *string
		}{{"gecos", u.Gecos}, {"homeDir", u.HomeDir}, {"shell", u.Shell}, {"passwordHash", u.PasswordHash}} {
			if f.value != nil && strings.ContainsAny(*f.value, ":\n\r\x00") {
				refuse(KindUser, u.Name, field+" "+f.name, "it has a colon or more than one line, which an account cannot hold: take that out")
			}
		}
		for _, g := range groupsOf(u) {
			if gone[g] {
				refuse(KindUser, u.Name, field, fmt.Sprintf("the config removes group %q, of which the user is to be a member: keep the group, or take it out of the user's groups", g))
			}
		}
	}
	return all
}

// groupsOf are the groups that a config names for a user.
func groupsOf(u ign.PasswdUser) (names []string) {
	if u.PrimaryGroup != nil && *u.PrimaryGroup != "" {
		names = append(names, *u.PrimaryGroup)
	}
	for _, g := range u.Groups {
		names = append(names, string(g))
	}
	return names
}

// lostOwners refuses owners of paths that the config itself removes.
func lostOwners(c ign.Config) (all []Refusal) {
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
			all = append(all, Refusal{Field: field, Why: fmt.Sprintf("the config removes user %q, to whom it is to belong: keep the user, or give another owner", name), Kind: kind, Name: n.Path})
		}
		if name := ownerName(n.Group.ID, n.Group.Name); groups[name] {
			all = append(all, Refusal{Field: field, Why: fmt.Sprintf("the config removes group %q, to which it is to belong: keep the group, or give another one", name), Kind: kind, Name: n.Path})
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

// ownerName is the owner that a config gives by its name; "" for root and for owners by number.
func ownerName(id *int, name *string) string {
	if id != nil || name == nil || *name == "root" {
		return ""
	}
	return *name
}
