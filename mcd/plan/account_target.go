package plan

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/mcd/host"
)

func recordsIn(seen host.State) AccountRecords {
	return ParseRecords(seen.Contents[seen.Paths[host.AccountsPath].Digest])
}

// accountTarget computes the users and groups of a target, and writes into its maps.
type accountTarget struct {
	host.State
	seen     host.State
	from, to Desired
	// records are the accounts in their state before any config.
	records AccountRecords
}

// accounts sets users and groups to the state that the new config requires.
func (t *accountTarget) accounts() {
	for name := range groupsOf(t.from) {
		if _, kept := groupsOf(t.to)[name]; !kept {
			t.restoreGroup(name)
		}
	}
	for _, w := range t.to.Groups {
		t.setGroup(w)
	}
	for name := range usersOf(t.from) {
		if _, kept := usersOf(t.to)[name]; !kept {
			t.restoreUser(name)
		}
	}
	for _, w := range t.to.Users {
		t.setUser(w)
	}
	t.dropRemovedGroups()
	t.recordFormerIDs()
	t.writeRecords()
}

// recordFormerIDs records the numbers of users who are removed, and deletes the recorded numbers of users who exist.
func (t *accountTarget) recordFormerIDs() {
	for name, u := range t.Users {
		is := t.seen.Users[name]
		switch {
		case u.There:
			delete(t.records.Former, name)
		case is.There:
			last := host.Owner{UID: is.UID}
			if g := t.seen.Groups[name]; g.There && g.GID == is.GID {
				last.GID = g.GID
			}
			t.records.Former[name] = last
		}
	}
}

// dropRemovedGroups removes users from groups that are removed.
func (t *accountTarget) dropRemovedGroups() {
	for name, u := range t.Users {
		u.Groups = host.JoinNames(slices.DeleteFunc(host.Names(u.Groups), func(group string) bool {
			g, asked := t.Groups[group]
			return asked && !g.There
		}))
		t.Users[name] = u
	}
}

// writeRecords writes the records if they changed, and removes the file if they are empty.
func (t *accountTarget) writeRecords() {
	text, err := json.Marshal(t.records)
	before, _ := json.Marshal(recordsIn(t.seen)) //nolint:errcheck // plain data always marshals, as text above
	switch {
	case err != nil || bytes.Equal(text, before):
	case len(t.records.Users)+len(t.records.Groups)+len(t.records.Former) == 0:
		t.Paths[host.AccountsPath] = host.Entry{}
	default:
		d := host.DigestOf(text)
		t.Paths[host.AccountsPath] = host.Entry{Kind: host.File, Mode: 0o600, Digest: d}
		t.Contents[d] = text
	}
}

func usersOf(w Desired) map[string]User {
	users := map[string]User{}
	for _, u := range w.Users {
		users[u.Name] = u
	}
	return users
}

func groupsOf(w Desired) map[string]Group {
	groups := map[string]Group{}
	for _, g := range w.Groups {
		groups[g.Name] = g
	}
	return groups
}

// userBefore returns a user as it was before any config. Of the users of the first config, only core and root existed
// before, in the image.
func (t *accountTarget) userBefore(name string, is host.User) (u host.User) {
	from, ours := usersOf(t.from)[name]
	if b, known := t.records.Users[name]; known {
		if b.User.There {
			b.User.Password = t.addPassword(b.Password)
		}
		return b.User
	}
	if ours && name != ImageUser && is.UID != 0 {
		return host.User{}
	}
	if ours && from.Specified.Password && is.There {
		// The earlier password is unknown, and the password of the config must not stay.
		is.Password = t.addPassword(host.NoPassword)
	}
	return is
}

func (t *accountTarget) addPassword(password string) host.Digest {
	d := host.DigestOf([]byte(password))
	t.Contents[d] = []byte(password)
	return d
}

// restoreUser restores a user to the state before any config, or removes the user if it did not exist then. The home
// directory stays.
func (t *accountTarget) restoreUser(name string) {
	t.Users[name] = t.userBefore(name, t.seen.Users[name])
	delete(t.records.Users, name)
}

// setUser sets a user to the state that the new config requires, and records its earlier state. setUser records a user
// of the image only if the account itself changes. New SSH keys do not change the account, because they are files.
func (t *accountTarget) setUser(w User) {
	is := t.seen.Users[w.Name]
	_, ours := usersOf(t.from)[w.Name]
	u := t.userAs(w)
	brought := w.Name == ImageUser || is.There && is.UID == 0
	if _, known := t.records.Users[w.Name]; !known && (brought && is != u || !brought && !ours &&
		(is.There || u.There)) {
		was := t.userBefore(w.Name, is)
		t.records.Users[w.Name] = AccountRecord{User: was, Password: string(t.Contents[was.Password])}
	}
	t.Users[w.Name] = u
	if u.There && !w.NoHome && (!is.There || is.Home != u.Home) {
		t.makeHome(u)
	}
}

// userAs returns a user as the config specifies it. An attribute that the new config leaves open stays, unless the
// current config specified it. In that case, the attribute returns to its value before any config, or to the machine's
// default.
func (t *accountTarget) userAs(w User) host.User {
	if w.Removed {
		return host.User{}
	}
	is, said := t.seen.Users[w.Name], usersOf(t.from)[w.Name].Specified
	was := t.userBefore(w.Name, is)
	if !was.There {
		was = w.Account
	}
	if !is.There {
		is, said = was, Specified{}
	}
	u := host.User{There: true, UID: is.UID}
	if w.Specified.UID {
		u.UID = w.Account.UID
	}
	u.GID = pick(w.Specified.GID, said.GID, attribute[int]{w.Account.GID, was.GID, is.GID})
	u.Gecos = pick(w.Specified.Gecos, said.Gecos, attribute[string]{w.Account.Gecos, was.Gecos, is.Gecos})
	u.Shell = pick(w.Specified.Shell, said.Shell, attribute[string]{w.Account.Shell, was.Shell, is.Shell})
	u.Groups = pick(w.Specified.Groups, said.Groups, attribute[string]{w.Account.Groups, was.Groups, is.Groups})
	u.Password = pick(w.Specified.Password, said.Password, attribute[host.Digest]{
		w.Account.Password, was.Password,
		is.Password,
	})
	// The home must not change, because the SSH keys are in the present home.
	u.Home = pick(w.Specified.Home, false, attribute[string]{w.Account.Home, was.Home, is.Home})
	return u
}

// attribute is one attribute of a user with three values: the value in the config, the value before any config, and the
// present value.
type attribute[T int | string | host.Digest] struct{ specified, before, now T }

// pick returns the value of the new config, if the new config specifies a value. Otherwise it returns the value before
// any config, if the current config specified a value, and else the present value.
func pick[T int | string | host.Digest](specifies, specified bool, a attribute[T]) T {
	switch {
	case specifies:
		return a.specified
	case specified:
		return a.before
	}
	return a.now
}

// makeHome creates a new user's home directory with its content, as useradd does. An existing directory stays
// unchanged.
func (t *accountTarget) makeHome(u host.User) {
	home := t.to.At(u.Home)
	if t.seen.Paths[home].Kind != host.Absent || u.Home == "/" {
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
	put(home, host.Entry{Kind: host.Dir, Mode: t.seen.Accounts.Defaults.Filled().HomeMode})
	for _, f := range t.seen.Accounts.Skeleton {
		put(path.Join(home, f.Path), f.Entry)
		if f.Entry.Kind == host.File {
			t.Contents[f.Entry.Digest] = f.Contents
		}
	}
}

// groupBefore returns a group in its state before any config.
func (t *accountTarget) groupBefore(name string, is host.Group) host.Group {
	if was, known := t.records.Groups[name]; known {
		return was
	}
	if _, ours := groupsOf(t.from)[name]; ours && name != ImageUser && is.GID != 0 {
		return host.Group{}
	}
	return is
}

func (t *accountTarget) restoreGroup(name string) {
	is, was := t.seen.Groups[name], t.groupBefore(name, t.seen.Groups[name])
	if is.There && was.There {
		was.Members = is.Members // Users who joined the group later stay members.
	}
	t.Groups[name] = was
	delete(t.records.Groups, name)
}

func (t *accountTarget) setGroup(w Group) {
	is := t.seen.Groups[w.Name]
	_, ours := groupsOf(t.from)[w.Name]
	if _, known := t.records.Groups[w.Name]; !known && !ours && (is.There || !w.Removed) {
		t.records.Groups[w.Name] = is
	}
	switch was := t.groupBefore(w.Name, is); {
	case w.Removed:
		is = host.Group{}
	case w.Specified || !is.There && !was.There:
		is.There, is.GID = true, w.GID
	case !is.There:
		is = was
	}
	t.Groups[w.Name] = is
}

// AtFirstBoot returns a config without the secrets that the server withheld from a machine's first config. AtFirstBoot
// leaves out files, contents of units, drop-ins and passwords that do not exist on the machine, or that are marked as
// secret and differ from the config, and hard links to such files. All other differences are drift, so they stay in the
// config. The result follows from the machine alone, because a server may treat other contents as secret than this
// daemon. The parameter observed must cover ScopeOf the config.
func AtFirstBoot(whole Config, accounts host.Accounts, observed host.State) machineconfig.Config {
	c := machineconfig.Flattened(whole.Config)
	b := firstBootConfig{
		seen: observed, wanted: DesiredOf(whole.Config, accounts), marked: whole.Secrets,
		missing: map[string]bool{},
	}
	s := &c.Ignition.Storage
	s.Files = slices.DeleteFunc(slices.Clone(s.Files), func(f ign.File) bool {
		return b.lacks(path.Clean(f.Path))
	})
	s.Links = slices.DeleteFunc(slices.Clone(s.Links), b.lacksLink)
	units := c.Ignition.Systemd.Units
	c.Ignition.Systemd.Units = nil
	for _, u := range units {
		if u, there := b.startedUnit(u); there {
			c.Ignition.Systemd.Units = append(c.Ignition.Systemd.Units, u)
		}
	}
	c.Ignition.Passwd.Users = slices.Clone(c.Ignition.Passwd.Users)
	for i, u := range c.Ignition.Passwd.Users {
		if b.lacksPassword(u) {
			c.Ignition.Passwd.Users[i].PasswordHash = nil
		}
	}
	return c
}

// firstBootConfig compares a machine with its first config.
type firstBootConfig struct {
	seen   host.State
	wanted Desired
	// marked are the paths that users mark as secret.
	marked secretmask.Paths
	// missing are the paths that the machine lacks.
	missing map[string]bool
}

// lacks reports whether a wanted path does not exist, or is marked as secret and differs.
func (b firstBootConfig) lacks(p string) bool {
	want, wanted := b.wanted.Paths[p]
	is := b.seen.Paths[p]
	lacks := wanted && want.Kind != host.Absent && (is.Kind == host.Absent ||
		want.Kind == host.File && !b.hasContent(p, is, want) && b.marked.Match(p))
	b.missing[p] = b.missing[p] || lacks
	return lacks
}

// hasContent reports whether a path has the wanted content.
func (b firstBootConfig) hasContent(p string, is, want host.Entry) bool {
	if tail, appends := b.wanted.Appends[p]; appends {
		return is.Kind == host.File && bytes.HasSuffix(b.seen.Contents[is.Digest], tail)
	}
	return is.Kind == host.File && is.Digest == want.Digest
}

func (b firstBootConfig) lacksLink(l ign.Link) bool {
	return l.Hard != nil && *l.Hard && l.Target != nil && b.missing[path.Clean(path.Join("/", *l.Target))] &&
		b.seen.Paths[path.Clean(l.Path)].Kind == host.Absent
}

// startedUnit returns the part of a unit with which the machine first booted; false if there is none. In the result, a
// unit with a missing part is not enabled.
func (b firstBootConfig) startedUnit(u ign.Unit) (ign.Unit, bool) {
	before := len(u.Dropins)
	u.Dropins = slices.DeleteFunc(slices.Clone(u.Dropins), func(d ign.Dropin) bool {
		return b.lacks(DropinPath(u.Name, d.Name))
	})
	part := len(u.Dropins) < before
	if b.lacks(UnitPath(u.Name)) {
		part, u.Contents, u.Mask = true, nil, nil
	}
	if part {
		u.Enabled = nil
	}
	return u, !part || u.Contents != nil || u.Mask != nil || len(u.Dropins) > 0
}

// lacksPassword reports whether an existing user has another password than the config specifies.
func (b firstBootConfig) lacksPassword(u ign.PasswdUser) bool {
	is := b.seen.Users[u.Name]
	want, wanted := usersOf(b.wanted)[u.Name]
	return wanted && want.Specified.Password && is.There && is.Password != want.Account.Password
}
