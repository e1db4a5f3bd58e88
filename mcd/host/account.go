package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// User is an account as it is. The zero value says that there is none. It is comparable and holds no secret.
type User struct {
	// There tells that the user exists.
	There bool `json:",omitempty"`
	// UID and GID: the user's number, and that of the primary group.
	UID, GID int `json:",omitempty"`
	// Gecos is the comment, usually the full name.
	Gecos string `json:",omitempty"`
	// Home directory and login shell.
	Home, Shell string `json:",omitempty"`
	// Groups are the supplementary ones by name, in lexical order, joined by commas.
	Groups string `json:",omitempty"`
	// Password is the digest of the hash in the shadow file, never the hash.
	Password Digest `json:",omitempty"`
}

// Owner of what belongs to the user.
func (u User) Owner() Owner { return Owner{UID: u.UID, GID: u.GID} }

// String is canonical, without anything about the password: `1001:1001 home /home/a shell /bin/sh groups adm,wheel`.
func (u User) String() string {
	if !u.There {
		return "absent"
	}
	text := fmt.Sprintf("%d:%d home %s shell %s", u.UID, u.GID, u.Home, u.Shell)
	if u.Groups != "" {
		text += " groups " + u.Groups
	}
	if u.Gecos != "" {
		text += fmt.Sprintf(" comment %q", u.Gecos)
	}
	return text
}

// Difference says in what a user was other, in words; "" where nothing differs.
func (u User) Difference(was User) string {
	switch {
	case u == was:
		return ""
	case !was.There:
		return "new"
	}
	var parts []string
	for _, f := range []struct{ name, was, is string }{
		{"uid", fmt.Sprint(was.UID), fmt.Sprint(u.UID)},
		{"gid", fmt.Sprint(was.GID), fmt.Sprint(u.GID)},
		{"home", was.Home, u.Home},
		{"shell", was.Shell, u.Shell},
		{"groups", was.Groups, u.Groups},
		{"comment", was.Gecos, u.Gecos},
	} {
		if f.was != f.is {
			parts = append(parts, fmt.Sprintf("%s was %s", f.name, orNone(f.was)))
		}
	}
	if u.Password != was.Password {
		parts = append(parts, "password changed")
	}
	return strings.Join(parts, ", ")
}

// Group is a group as it is. The zero value says that there is none.
type Group struct {
	// There tells that the group exists.
	There bool `json:",omitempty"`
	// GID is its number.
	GID int `json:",omitempty"`
	// Members by name, in lexical order, joined by commas. In a State, those of its Users are left out: they have their
	// Groups. They matter where a group comes back.
	Members string `json:",omitempty"`
}

// String is canonical: `1001 members a,b`.
func (g Group) String() string {
	switch {
	case !g.There:
		return "absent"
	case g.Members == "":
		return fmt.Sprint(g.GID)
	}
	return fmt.Sprintf("%d members %s", g.GID, g.Members)
}

// Names splits a list of names as User.Groups and Group.Members hold them.
func Names(joined string) []string {
	return strings.FieldsFunc(joined, func(r rune) bool { return r == ',' })
}

// JoinNames is the inverse of Names; order and repetitions do not count.
func JoinNames(names []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ",")
}

// Accounts are what a machine tells about its users and groups before anybody asks for one: names and numbers, and how
// new accounts are made. The zero value is a machine without any.
type Accounts struct {
	// Users by name.
	Users map[string]Owner
	// Homes are their home directories.
	Homes map[string]string
	// Groups by name.
	Groups map[string]int
	// Left are the users and LeftGroups the numbers of groups that were there before any config and that a config has
	// removed: they come back, with their numbers, when it ends.
	Left       map[string]User
	LeftGroups map[string]int
	// Image names users and groups that came with the machine's packages: nobody can change or remove them in place.
	Image map[string]bool
	// Defaults for new accounts.
	Defaults AccountDefaults
	// Skeleton is what a new home directory holds.
	Skeleton []SkeletonFile
	// Unprivileged: owners cannot be set on this host; every owner counts as root.
	Unprivileged bool
}

// AccountDefaults are a machine's rules for new accounts, as login.defs and useradd's own file have them. A zero field
// stands for the usual value.
type AccountDefaults struct {
	// HomeBase is where home directories are made: /home.
	HomeBase string
	// Shell is the login shell: /bin/bash.
	Shell string
	// Group is the primary group of users without one of their own: 100.
	Group int
	// HomeMode are the permission bits of a new home directory: 0700.
	HomeMode uint32
	// UIDs and GIDs are the ranges in which numbers are chosen, first and last: 1000 to 60000.
	UIDs, GIDs [2]int
	// SystemUIDs and SystemGIDs are those of system accounts: 201 to 999.
	SystemUIDs, SystemGIDs [2]int
}

// Filled has the usual value in every zero field.
func (d AccountDefaults) Filled() AccountDefaults {
	d.HomeBase, d.Shell = cmp.Or(d.HomeBase, "/home"), cmp.Or(d.Shell, "/bin/bash")
	d.Group, d.HomeMode = cmp.Or(d.Group, 100), cmp.Or(d.HomeMode, 0o700)
	d.UIDs, d.GIDs = cmp.Or(d.UIDs, [2]int{1000, 60000}), cmp.Or(d.GIDs, [2]int{1000, 60000})
	d.SystemUIDs, d.SystemGIDs = cmp.Or(d.SystemUIDs, [2]int{201, 999}), cmp.Or(d.SystemGIDs, [2]int{201, 999})
	return d
}

// SkeletonFile is one thing that a new home directory holds.
type SkeletonFile struct {
	// Path below the home directory, such as .bashrc.
	Path string
	// Entry there; its owner will be the user.
	Entry Entry
	// Contents of a file.
	Contents []byte
}
