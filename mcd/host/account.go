package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// User is a user of the machine. The zero value stands for a user that does not exist. User is comparable and has no
// secrets.
type User struct {
	// There reports whether the user exists.
	There bool `json:",omitempty"`
	// UID is the number of the user. GID is the number of the primary group.
	UID, GID int `json:",omitempty"`
	// Gecos is the comment, usually the full name.
	Gecos string `json:",omitempty"`
	// Home is the home directory. Shell is the login shell.
	Home, Shell string `json:",omitempty"`
	// Groups are the names of the supplementary groups, sorted and joined by commas.
	Groups string `json:",omitempty"`
	// Password is the digest of the hash in the shadow file, never the hash.
	Password Digest `json:",omitempty"`
}

// Owner returns the owner of the user's files.
func (u User) Owner() Owner { return Owner{UID: u.UID, GID: u.GID} }

// String returns the canonical text without the password: `1001:1001 home /home/a shell /bin/sh groups adm,wheel`.
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

// Difference describes how the user differed before; "" if nothing differs.
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

// Group is a group of the machine. The zero value stands for a group that does not exist.
type Group struct {
	// There reports whether the group exists.
	There bool `json:",omitempty"`
	// GID is the number of the group.
	GID int `json:",omitempty"`
	// Members are the names of the group's users, sorted and joined by commas. In a State, Members omits the State's
	// own Users, because User.Groups lists their groups. A rollback restores the remaining members together with the
	// group.
	Members string `json:",omitempty"`
}

// String returns the canonical text: `1001 members a,b`.
func (g Group) String() string {
	switch {
	case !g.There:
		return "absent"
	case g.Members == "":
		return fmt.Sprint(g.GID)
	}
	return fmt.Sprintf("%d members %s", g.GID, g.Members)
}

// Names splits a list in the form of User.Groups and Group.Members.
func Names(joined string) []string {
	return strings.FieldsFunc(joined, func(r rune) bool { return r == ',' })
}

// JoinNames is the inverse of Names. JoinNames sorts the names and removes duplicates.
func JoinNames(names []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ",")
}

// Accounts are the names and numbers of all users and groups of a machine, and how it creates new accounts. The zero
// value is a machine without accounts.
type Accounts struct {
	// Users has the owner numbers of the users, by name.
	Users map[string]Owner
	// Homes has the home directories of the users, by name.
	Homes map[string]string
	// Groups has the numbers of the groups, by name.
	Groups map[string]int
	// Left are the users, and LeftGroups the group numbers, that existed before any config and that a config removed.
	// If no config removes these accounts any more, the daemon restores them with their numbers.
	Left       map[string]User
	LeftGroups map[string]int
	// Made names the groups that did not exist before any config.
	Made map[string]bool
	// Image names users and groups of the OS image, which cannot be changed or removed in place.
	Image map[string]bool
	// Defaults for new accounts.
	Defaults AccountDefaults
	// Skeleton is the content of a new home directory.
	Skeleton []SkeletonFile
	// KeysFile is the file with a user's SSH keys, as a path below the home directory; default .ssh/authorized_keys.
	KeysFile string
	// MergesKeys is true if a program of the machine must run after each change of the file with a user's SSH keys.
	MergesKeys bool
	// Unprivileged is true on a host that cannot set owners. On such a host, every owner counts as root.
	Unprivileged bool
}

// AccountDefaults are a machine's rules for new accounts, from login.defs and /etc/default/useradd. A zero field stands
// for its default.
type AccountDefaults struct {
	// HomeBase is the directory of home directories; default /home.
	HomeBase string
	// Shell is the login shell; default /bin/bash.
	Shell string
	// Group is the primary group of users without a group of their own; default 100.
	Group int
	// HomeMode has the permission bits of a new home directory; default 0700.
	HomeMode uint32
	// UIDs and GIDs are the first and last numbers for new accounts; default 1000 to 60000.
	UIDs, GIDs [2]int
	// SystemUIDs and SystemGIDs are the first and last numbers for system accounts; default 201 to 999.
	SystemUIDs, SystemGIDs [2]int
}

// Filled returns the rules with the default in every zero field.
func (d AccountDefaults) Filled() AccountDefaults {
	d.HomeBase, d.Shell = cmp.Or(d.HomeBase, "/home"), cmp.Or(d.Shell, "/bin/bash")
	d.Group, d.HomeMode = cmp.Or(d.Group, 100), cmp.Or(d.HomeMode, 0o700)
	d.UIDs, d.GIDs = cmp.Or(d.UIDs, [2]int{1000, 60000}), cmp.Or(d.GIDs, [2]int{1000, 60000})
	d.SystemUIDs, d.SystemGIDs = cmp.Or(d.SystemUIDs, [2]int{201, 999}), cmp.Or(d.SystemGIDs, [2]int{201, 999})
	return d
}

// SkeletonFile is a file or directory of a new home directory.
type SkeletonFile struct {
	// Path is the path below the home directory, such as .bashrc.
	Path string
	// Entry is the file or directory. The owner of the copied file will be the user.
	Entry Entry
	// Contents are the contents of a file.
	Contents []byte
}
