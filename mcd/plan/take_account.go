package plan

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// accountRecords is the content of host.AccountsPath: what accounts were before a config took them.
type accountRecords struct {
	// Users by name; the zero user says that there was none.
	Users map[string]userRecord `json:",omitempty"`
	// Groups by name; the zero group says that there was none.
	Groups map[string]host.Group `json:",omitempty"`
	// Former are the numbers of users whom configs made and took away. Their files are still there, so nobody else shall
	// have their numbers. The GID is that of a group of their own, or 0.
	Former map[string]host.Owner `json:",omitempty"`
}

// userRecord is a user with the hash of its password.
type userRecord struct {
	User     host.User `json:",omitzero"`
	Password string    `json:",omitempty"`
}

// readRecords reads the file; one that is damaged is as none, because it must not keep a node from its config.
func readRecords(text []byte) accountRecords {
	r := accountRecords{Users: map[string]userRecord{}, Groups: map[string]host.Group{}, Former: map[string]host.Owner{}}
	var read accountRecords
	if json.Unmarshal(text, &read) != nil {
		return r
	}
	maps.Copy(r.Users, read.Users)
	maps.Copy(r.Groups, read.Groups)
	maps.Copy(r.Former, read.Former)
	return r
}

func recordsIn(seen host.State) accountRecords {
	return readRecords(seen.Contents[seen.Paths[host.AccountsPath].Digest])
}

// accountTarget is the part of target that is about users and groups.
type accountTarget struct {
	*target
	// kept is what accounts were before configs took them.
	kept accountRecords
}

// accounts brings users and groups to what the new config says.
func (t *accountTarget) accounts() {
	for name := range groupsOf(t.from) {
		if _, kept := groupsOf(t.to)[name]; !kept {
			t.leaveGroup(name)
		}
	}
	for _, w := range t.to.Groups {
		t.takeGroup(w)
	}
	for name := range usersOf(t.from) {
		if _, kept := usersOf(t.to)[name]; !kept {
			t.leaveUser(name)
		}
	}
	for _, w := range t.to.Users {
		t.takeUser(w)
	}
	t.leaveGroups()
	t.former()
	t.keepRecords()
}

// former remembers the numbers of users who go, and forgets those of users who are there.
func (t *accountTarget) former() {
	for name, u := range t.Users {
		is := t.seen.Users[name]
		switch {
		case u.There:
			delete(t.kept.Former, name)
		case is.There:
			last := host.Owner{UID: is.UID}
			if g := t.seen.Groups[name]; g.There && g.GID == is.GID {
				last.GID = g.GID
			}
			t.kept.Former[name] = last
		}
	}
}

// leaveGroups takes users out of groups that go.
func (t *accountTarget) leaveGroups() {
	for name, u := range t.Users {
		u.Groups = host.JoinNames(slices.DeleteFunc(host.Names(u.Groups), func(group string) bool {
			g, asked := t.Groups[group]
			return asked && !g.There
		}))
		t.Users[name] = u
	}
}

// keepRecords writes the records where they have changed, and removes the last.
func (t *accountTarget) keepRecords() {
	text, err := json.Marshal(t.kept)
	before, _ := json.Marshal(recordsIn(t.seen)) //nolint:errcheck // plain data always marshals, as text above
	switch {
	case err != nil || bytes.Equal(text, before):
	case len(t.kept.Users)+len(t.kept.Groups)+len(t.kept.Former) == 0:
		t.Paths[host.AccountsPath] = host.Entry{}
	default:
		d := host.DigestOf(text)
		t.Paths[host.AccountsPath] = host.Entry{Kind: host.File, Mode: 0o600, Digest: d}
		t.Contents[d] = text
	}
}

func usersOf(w Wanted) map[string]WantedUser {
	users := map[string]WantedUser{}
	for _, u := range w.Users {
		users[u.Name] = u
	}
	return users
}

func groupsOf(w Wanted) map[string]WantedGroup {
	groups := map[string]WantedGroup{}
	for _, g := range w.Groups {
		groups[g.Name] = g
	}
	return groups
}

// userBefore is what a user was before any config. A user whom the machine was born with by its first config was not
// there, but for core and root, whom the image brings.
func (t *accountTarget) userBefore(name string, is host.User) (u host.User) {
	from, ours := usersOf(t.from)[name]
	if b, known := t.kept.Users[name]; known {
		if b.User.There {
			b.User.Password = t.hash(b.Password)
		}
		return b.User
	}
	if ours && name != keysUser && is.UID != 0 {
		return host.User{}
	}
	if ours && from.Says.Password && is.There {
		is.Password = t.hash(host.NoPassword) // what it was is not known, and the config's must not stay
	}
	return is
}

func (t *accountTarget) hash(password string) host.Digest {
	d := host.DigestOf([]byte(password))
	t.Contents[d] = []byte(password)
	return d
}

// leaveUser gives a user back: one that was there is as it was, another one goes. Home directories stay.
func (t *accountTarget) leaveUser(name string) {
	t.Users[name] = t.userBefore(name, t.seen.Users[name])
	delete(t.kept.Users, name)
}

// takeUser makes a user be as the new config says, and writes down what it was before. Of those whom the image brings,
// that is done when something of the account changes, because their keys alone are files.
func (t *accountTarget) takeUser(w WantedUser) {
	is := t.seen.Users[w.Name]
	_, ours := usersOf(t.from)[w.Name]
	u := t.userAs(w)
	brought := w.Name == keysUser || is.There && is.UID == 0
	if _, known := t.kept.Users[w.Name]; !known && (brought && is != u || !brought && !ours && (is.There || u.There)) {
		was := t.userBefore(w.Name, is)
		t.kept.Users[w.Name] = userRecord{User: was, Password: string(t.Contents[was.Password])}
	}
	t.Users[w.Name] = u
	if u.There && !w.Homeless && (!is.There || is.Home != u.Home) {
		t.makeHome(u)
	}
}

// userAs lays what the config says over what is there. What the config does not say stays, unless the one before said
// it: then it is as it was before, or as the machine makes it.
func (t *accountTarget) userAs(w WantedUser) host.User {
	if w.Gone {
		return host.User{}
	}
	is, said := t.seen.Users[w.Name], usersOf(t.from)[w.Name].Says
	was := t.userBefore(w.Name, is)
	if !was.There {
		was = w.New
	}
	if !is.There {
		is, said = was, Says{}
	}
	u := host.User{There: true, UID: is.UID}
	if w.Says.UID {
		u.UID = w.New.UID
	}
	u.GID = pick(w.Says.GID, said.GID, w.New.GID, was.GID, is.GID)
	u.Gecos = pick(w.Says.Gecos, said.Gecos, w.New.Gecos, was.Gecos, is.Gecos)
	u.Shell = pick(w.Says.Shell, said.Shell, w.New.Shell, was.Shell, is.Shell)
	u.Groups = pick(w.Says.Groups, said.Groups, w.New.Groups, was.Groups, is.Groups)
	u.Password = pick(w.Says.Password, said.Password, w.New.Password, was.Password, is.Password)
	u.Home = pick(w.Says.Home, false, w.New.Home, was.Home, is.Home) // its keys are where it lives: it does not move by itself
	return u
}

// pick is one attribute: the config's word, else what it was before where the config until now had a word, else what
// it is.
func pick[T int | string | host.Digest](says, said bool, word, was, is T) T {
	switch {
	case says:
		return word
	case said:
		return was
	}
	return is
}

// makeHome makes a new user's home directory and what belongs into it, as useradd does; one that is there stays as it is.
func (t *accountTarget) makeHome(u host.User) {
	if t.seen.Paths[u.Home].Kind != host.Absent || u.Home == "/" {
		return
	}
	owner := u.Owner()
	if t.seen.Accounts.Unprivileged {
		owner = host.Owner{}
	}
	put := func(p string, e host.Entry) {
		if _, wanted := t.to.Paths[p]; !wanted {
			e.Owner = owner
			t.Paths[p] = e
		}
	}
	put(u.Home, host.Entry{Kind: host.Dir, Mode: t.seen.Accounts.Defaults.Filled().HomeMode})
	for _, f := range t.seen.Accounts.Skeleton {
		put(path.Join(u.Home, f.Path), f.Entry)
		if f.Entry.Kind == host.File {
			t.Contents[f.Entry.Digest] = f.Contents
		}
	}
}

// groupBefore is what a group was before any config.
func (t *accountTarget) groupBefore(name string, is host.Group) host.Group {
	if was, known := t.kept.Groups[name]; known {
		return was
	}
	if _, ours := groupsOf(t.from)[name]; ours && name != keysUser && is.GID != 0 {
		return host.Group{}
	}
	return is
}

func (t *accountTarget) leaveGroup(name string) {
	is, was := t.seen.Groups[name], t.groupBefore(name, t.seen.Groups[name])
	if is.There && was.There {
		was.Members = is.Members // who joined meanwhile stays
	}
	t.Groups[name] = was
	delete(t.kept.Groups, name)
}

func (t *accountTarget) takeGroup(w WantedGroup) {
	is := t.seen.Groups[w.Name]
	_, ours := groupsOf(t.from)[w.Name]
	if _, known := t.kept.Groups[w.Name]; !known && !ours && (is.There || !w.Gone) {
		t.kept.Groups[w.Name] = is
	}
	switch was := t.groupBefore(w.Name, is); {
	case w.Gone:
		is = host.Group{}
	case w.Said || !is.There && !was.There:
		is.There, is.GID = true, w.GID
	case !is.There:
		is = was
	}
	t.Groups[w.Name] = is
}
