package plan

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

// WantedUser is what a config says about a user, and what the machine would make of the rest if the user were new.
type WantedUser struct {
	// Name of the user.
	Name string
	// Gone: the config says that it shall not exist.
	Gone bool
	// New is the account as it would be made. Its numbers are those that the machine has for the name already, if any.
	New host.User
	// Says tells which parts of New are the config's word; of the others, those that are there stay.
	Says Says
	// Homeless: no home directory is made.
	Homeless bool
}

// Says marks the parts of a user that a config speaks about.
type Says struct{ UID, GID, Gecos, Home, Shell, Groups, Password bool }

// WantedGroup is what a config says about a group.
type WantedGroup struct {
	// Name of the group.
	Name string
	// Gone: the config says that it shall not exist.
	Gone bool
	// GID is the config's, else the machine's, else the next free one.
	GID int
	// Said: GID is the config's word.
	Said bool
}

// keysUser is who comes with every image, and whose account therefore outlives all configs.
const keysUser = "core"

// accountReader is the part of reader that is about users and groups.
type accountReader struct{ *reader }

// passwd reads the groups, then the users: both in the order of the config, which is that of their numbers.
func (r accountReader) passwd(p ign.Passwd) {
	for _, g := range p.Groups {
		r.group(g)
	}
	for _, u := range p.Users {
		r.user(u)
	}
}

// group reads a group. Its password is first boots' to set: policy.Refuse speaks about one that is new.
func (r accountReader) group(g ign.PasswdGroup) {
	field := "passwd.groups " + g.Name
	switch {
	case !policy.ValidAccount(g.Name):
		return
	case r.accounts.Image[g.Name]:
		r.problem(policy.CheckAccounts, field, "it comes with the node's image and cannot be changed in place: choose another name, or change the image")
		return
	}
	want := WantedGroup{Name: g.Name, Gone: g.ShouldExist != nil && !*g.ShouldExist, Said: g.Gid != nil}
	switch gid, known := r.gids[g.Name]; {
	case g.Gid != nil:
		want.GID = *g.Gid
	case known:
		want.GID = gid
	case !want.Gone:
		want.GID = r.freeGID(g.System != nil && *g.System, -1)
	}
	if !want.Gone {
		r.gids[g.Name] = want.GID
	} else {
		delete(r.gids, g.Name)
	}
	r.w.Groups = append(r.w.Groups, want)
}

func (r accountReader) user(u ign.PasswdUser) {
	field := "passwd.users " + u.Name
	switch {
	case !policy.ValidAccount(u.Name):
		return
	case r.accounts.Image[u.Name]:
		r.problem(policy.CheckAccounts, field, "it comes with the node's image and cannot be changed in place: choose another name, or change the image")
		return
	}
	want := WantedUser{Name: u.Name, Gone: u.ShouldExist != nil && !*u.ShouldExist, Homeless: u.NoCreateHome != nil && *u.NoCreateHome}
	if want.Gone {
		r.goneGroup(u.Name)
		delete(r.uids, u.Name)
		r.w.Users = append(r.w.Users, want)
		return
	}
	want.New = host.User{There: true}
	r.text(&want, u)
	r.numbers(&want, u)
	hash := host.NoPassword
	if u.PasswordHash != nil && *u.PasswordHash != "" {
		hash = *u.PasswordHash
	}
	want.Says.Password = u.PasswordHash != nil
	want.New.Password = r.secret(hash)
	r.w.Users = append(r.w.Users, want)
	r.keys(want, u)
}

// goneGroup lets a user's own group go with it, as userdel does: one of its name that nobody else has as primary group.
func (r accountReader) goneGroup(name string) {
	owner, known := r.uids[name]
	gid, named := r.gids[name]
	said := slices.ContainsFunc(r.w.Groups, func(g WantedGroup) bool { return g.Name == name })
	if !known || !named || gid != owner.GID || said {
		return
	}
	for other, o := range r.uids {
		if other != name && o.GID == gid {
			return
		}
	}
	delete(r.gids, name)
	r.w.Groups = append(r.w.Groups, WantedGroup{Name: name, Gone: true})
}

// secret puts a password's hash among the contents.
func (r accountReader) secret(hash string) host.Digest {
	d := host.DigestOf([]byte(hash))
	r.w.Contents[d] = []byte(hash)
	return d
}

// text reads the parts of a user that are words.
func (r accountReader) text(want *WantedUser, u ign.PasswdUser) {
	d := r.accounts.Defaults.Filled()
	home := cmp.Or(r.accounts.Homes[u.Name], r.accounts.Left[u.Name].Home, path.Join(d.HomeBase, u.Name))
	for _, f := range []struct {
		value     *string
		otherwise string
		to        *string
		says      *bool
	}{
		{u.Gecos, "", &want.New.Gecos, &want.Says.Gecos},
		{u.HomeDir, home, &want.New.Home, &want.Says.Home},
		{u.Shell, d.Shell, &want.New.Shell, &want.Says.Shell},
	} {
		*f.to = f.otherwise
		if f.value != nil && *f.value != "" {
			*f.to, *f.says = *f.value, true
		}
	}
	if !path.IsAbs(want.New.Home) || path.Clean(want.New.Home) != want.New.Home {
		if !want.Says.Home {
			r.problem(policy.CheckAccounts, "passwd.users "+u.Name+" homeDir", "the node has none that is an absolute, clean path: write one like /home/"+u.Name)
		}
		want.New.Home = "/"
	}
}

// numbers reads a user's groups, and chooses the numbers that the config leaves open: those that the machine has for the
// name, else what useradd would take.
func (r accountReader) numbers(want *WantedUser, u ign.PasswdUser) {
	system := u.System != nil && *u.System
	owner, known := r.uids[u.Name]
	want.New.UID, want.Says.UID = owner.UID, u.UID != nil
	switch d := r.accounts.Defaults.Filled(); {
	case u.UID != nil:
		want.New.UID = *u.UID
	case !known:
		want.New.UID = r.freeUID(u.Name, system, d)
	}
	want.Says.GID = u.PrimaryGroup != nil && *u.PrimaryGroup != ""
	if want.Says.GID {
		want.New.GID = r.gid(u.Name, *u.PrimaryGroup)
	} else {
		want.New.GID = r.ownGroup(want, u, owner)
	}
	r.uids[u.Name] = want.New.Owner()
	var names []string
	for _, g := range u.Groups {
		r.gid(u.Name, string(g))
		names = append(names, string(g))
	}
	want.Says.Groups, want.New.Groups = len(names) > 0, host.JoinNames(names)
}

// gid resolves the name or number of a group.
func (r accountReader) gid(user, group string) int {
	id, known := r.gids[group]
	if n, err := strconv.Atoi(group); err == nil {
		id, known = n, slices.Contains(slices.Collect(maps.Values(r.gids)), n)
	}
	if !known && r.accounts.Groups != nil {
		r.problem(policy.CheckAccounts, "passwd.users "+user, fmt.Sprintf("group %q does not exist on this node or in this config: add it to passwd.groups, or take it out", group))
	}
	return id
}

// ownGroup is the primary group of a user for whom the config names none: the one it has, else one of its own name.
func (r accountReader) ownGroup(want *WantedUser, u ign.PasswdUser, owner host.Owner) int {
	_, known := r.uids[u.Name]
	gid, named := r.gids[u.Name]
	switch {
	case known && (!named || gid != owner.GID):
		return owner.GID
	case known && (u.Name == keysUser || owner.UID == 0): // the image brings it
		return gid
	case !known && u.NoUserGroup != nil && *u.NoUserGroup:
		return r.gid(u.Name, strconv.Itoa(r.accounts.Defaults.Filled().Group))
	case !known && named:
		r.problem(policy.CheckAccounts, "passwd.users "+u.Name, fmt.Sprintf("a group %q is there already, so the user cannot have one of its own: say primaryGroup: %s, or noUserGroup: true", u.Name, u.Name))
		return gid
	case !known:
		gid = r.freeGID(u.System != nil && *u.System, cmp.Or(r.former[u.Name].GID, want.New.UID))
		r.gids[u.Name] = gid
	}
	if !slices.ContainsFunc(r.w.Groups, func(g WantedGroup) bool { return g.Name == u.Name }) {
		r.w.Groups = append(r.w.Groups, WantedGroup{Name: u.Name, GID: gid})
	}
	return gid
}

// freeGID chooses the number of a new group: the preferred one if nobody has it, as useradd does for a user's own group.
func (r accountReader) freeGID(system bool, preferred int) int {
	used := map[int]bool{}
	for _, gid := range r.gids {
		used[gid] = true
	}
	d := r.accounts.Defaults.Filled()
	switch {
	case preferred >= 0 && !used[preferred]:
		return preferred
	}
	for _, o := range r.former {
		used[o.GID] = true
	}
	switch {
	case system:
		return lowest(used, d.SystemGIDs)
	}
	return highest(used, d.GIDs)
}

// freeUID chooses the number of a new user: the one that it had before, so that its files are its own again, or else one
// that nobody has or had.
func (r accountReader) freeUID(name string, system bool, d host.AccountDefaults) int {
	used := map[int]bool{}
	for _, o := range r.uids {
		used[o.UID] = true
	}
	if had, ok := r.former[name]; ok && !used[had.UID] {
		return had.UID
	}
	for _, o := range r.former {
		used[o.UID] = true
	}
	if system {
		return lowest(used, d.SystemUIDs)
	}
	return highest(used, d.UIDs)
}

// highest is the number above all that are used in a range; if that is full at the top, the first that is free.
func highest(used map[int]bool, in [2]int) int {
	next := in[0]
	for id := range used {
		if id >= next && id <= in[1] {
			next = id + 1
		}
	}
	for id := in[0]; next > in[1] && id <= in[1]; id++ {
		if !used[id] {
			return id
		}
	}
	return next
}

// lowest is the number below all that are used in a range, as system accounts are numbered.
func lowest(used map[int]bool, in [2]int) int {
	next := in[1]
	for id := range used {
		if id <= next && id >= in[0] {
			next = id - 1
		}
	}
	for id := in[1]; next < in[0] && id >= in[0]; id-- {
		if !used[id] {
			return id
		}
	}
	return next
}

// keys writes a user's SSH keys into its own file; the directories down to it are made for the user where they are
// missing.
func (r accountReader) keys(want WantedUser, u ign.PasswdUser) {
	var lines strings.Builder
	for _, key := range u.SSHAuthorizedKeys {
		lines.WriteString(strings.TrimRight(string(key), "\n") + "\n")
	}
	if lines.Len() == 0 {
		return
	}
	owner := want.New.Owner()
	if r.accounts.Unprivileged {
		owner = host.Owner{}
	}
	dir := host.Entry{Kind: host.Dir, Mode: 0o700, Owner: owner}
	ssh := path.Join(want.New.Home, ".ssh")
	if want.New.Home != "/" {
		r.w.Parents[want.New.Home] = dir
	}
	r.w.Parents[ssh] = dir
	r.w.Parents[ssh+"/authorized_keys.d"] = dir
	at := policy.KeysPath(want.New.Home)
	if !want.Says.Home {
		r.keysFiles[at] = true
	}
	r.file(at, []byte(lines.String()), host.Entry{Mode: 0o600, Owner: owner})
}
