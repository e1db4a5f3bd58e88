package host

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The files of a machine's account database.
const (
	PasswdPath = "/etc/passwd"
	GroupPath  = "/etc/group"
	ShadowPath = "/etc/shadow"
)

// NoPassword is a password hash that no password matches.
const NoPassword = "*"

// Database is the text of a machine's account database. Lines that the parser does not understand have no effect and
// stay in the file, as with the C library.
type Database struct {
	// Passwd, Group and Shadow are the contents of the files.
	Passwd, Group, Shadow string
}

// line returns the fields of the line of a name; nil if there is no such line.
func line(file, name string, least int) []string {
	for text := range strings.Lines(file) {
		if f := strings.Split(strings.TrimRight(text, "\r\n"), ":"); f[0] == name && len(f) >= least {
			return f
		}
	}
	return nil
}

// User returns one user, and the hash of the password.
func (d Database) User(name string) (User, string) {
	f := line(d.Passwd, name, 7)
	if f == nil {
		return User{}, ""
	}
	u := User{There: true, Gecos: f[4], Home: f[5], Shell: f[6]}
	var errU, errG error
	u.UID, errU = strconv.Atoi(f[2])
	u.GID, errG = strconv.Atoi(f[3])
	if errU != nil || errG != nil {
		return User{}, ""
	}
	var groups []string
	for text := range strings.Lines(d.Group) {
		if g := strings.Split(strings.TrimRight(text, "\r\n"), ":"); len(g) >= 4 && slices.Contains(Names(g[3]), name) {
			groups = append(groups, g[0])
		}
	}
	u.Groups = JoinNames(groups)
	password := f[1]
	if password == "x" {
		password = NoPassword
		if s := line(d.Shadow, name, 2); s != nil {
			password = s[1]
		}
	}
	u.Password = DigestOf([]byte(password))
	return u, password
}

// GroupOf returns one group with all its members.
func (d Database) GroupOf(name string) Group {
	f := line(d.Group, name, 3)
	if f == nil {
		return Group{}
	}
	gid, err := strconv.Atoi(f[2])
	if err != nil {
		return Group{}
	}
	g := Group{There: true, GID: gid}
	if len(f) > 3 {
		g.Members = JoinNames(Names(f[3]))
	}
	return g
}

// SetUser creates or changes one user, whose groups must exist. The zero User removes the user, also from all groups.
func (d *Database) SetUser(name string, want User, password string) error {
	for _, field := range []string{name, want.Gecos, want.Home, want.Shell, password} {
		if strings.ContainsAny(field, ":\n") {
			return fmt.Errorf("user %q: a field has a colon or more than one line, which the account database "+
				"cannot hold", name)
		}
	}
	wanted := Names(want.Groups)
	for _, g := range wanted {
		if !d.GroupOf(g).There {
			return fmt.Errorf("user %q: group %q does not exist", name, g)
		}
	}
	d.Group = rewrite(d.Group, func(f []string) []string {
		if len(f) < 4 {
			return f
		}
		members := slices.DeleteFunc(Names(f[3]), func(m string) bool { return m == name })
		if want.There && slices.Contains(wanted, f[0]) {
			members = append(members, name)
		}
		f[3] = JoinNames(members)
		return f
	})
	if !want.There {
		d.Passwd, d.Shadow = lessLine(d.Passwd, name), lessLine(d.Shadow, name)
		return nil
	}
	d.Passwd = put(d.Passwd, []string{
		name, "x", strconv.Itoa(want.UID), strconv.Itoa(want.GID), want.Gecos, want.Home,
		want.Shell,
	}, true)
	shadow := line(d.Shadow, name, 9)
	if shadow == nil {
		shadow = []string{name, "", "", "0", "99999", "7", "", "", ""}
	}
	shadow[1] = password
	d.Shadow = put(d.Shadow, shadow, false)
	return nil
}

// SetGroup creates or changes one group with its number and at least the wanted members, or removes the group.
func (d *Database) SetGroup(name string, want Group) error {
	if strings.ContainsAny(name+want.Members, ":\n") {
		return fmt.Errorf("group %q: a field has a colon or more than one line, which the account database cannot hold",
			name)
	}
	if !want.There {
		d.Group = lessLine(d.Group, name)
		return nil
	}
	members := append(Names(d.GroupOf(name).Members), Names(want.Members)...)
	d.Group = put(d.Group, []string{name, "x", strconv.Itoa(want.GID), JoinNames(members)}, true)
	return nil
}

// rewrite replaces the fields of each line; nil fields remove the line.
func rewrite(file string, change func([]string) []string) string {
	var b strings.Builder
	for text := range strings.Lines(file) {
		if f := change(strings.Split(strings.TrimRight(text, "\r\n"), ":")); f != nil {
			b.WriteString(strings.Join(f, ":") + "\n")
		}
	}
	return b.String()
}

func lessLine(file, name string) string {
	return rewrite(file, func(f []string) []string {
		if f[0] == name {
			return nil
		}
		return f
	})
}

// put replaces the line of a name, or adds it after the last line whose number or name is not higher. So a line that is
// removed and restored gets its old position.
func put(file string, fields []string, numbered bool) string {
	if line(file, fields[0], 1) != nil {
		return rewrite(file, func(f []string) []string {
			if f[0] == fields[0] {
				return fields
			}
			return f
		})
	}
	key := func(f []string) (number int, name string) {
		if numbered && len(f) > 2 {
			number, _ = strconv.Atoi(f[2]) //nolint:errcheck // such a line sorts first
		}
		return number, f[0]
	}
	number, name := key(fields)
	var all [][]string
	at := 0
	for text := range strings.Lines(file) {
		f := strings.Split(strings.TrimRight(text, "\r\n"), ":")
		all = append(all, f)
		if n, other := key(f); cmp.Or(cmp.Compare(n, number), cmp.Compare(other, name)) <= 0 {
			at = len(all)
		}
	}
	var b strings.Builder
	for _, f := range slices.Insert(all, at, fields) {
		b.WriteString(strings.Join(f, ":") + "\n")
	}
	return b.String()
}
