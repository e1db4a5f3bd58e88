package plan

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// User has the settings of a config for a user. For settings that the config omits, User has the values that a new user
// would get.
type User struct {
	// Name is the name of the user.
	Name string
	// Removed is true if the config requires that the user does not exist.
	Removed bool
	// Account is the account to create. If the machine already has numbers for the name, Account has these numbers.
	Account host.User
	// Specified marks the attributes that the config sets. Other attributes of an existing user stay unchanged.
	Specified Specified
	// NoHome is true if the daemon must not create a home directory.
	NoHome bool
}

// Specified marks the attributes of a user that a config sets.
type Specified struct{ UID, GID, Gecos, Home, Shell, Groups, Password bool }

// Group has the settings of a config for a group.
type Group struct {
	// Name is the name of the group.
	Name string
	// Removed is true if the config requires that the group does not exist.
	Removed bool
	// GID is the number from the config. If the config sets none, GID is the group's number on the machine, or the next
	// free number.
	GID int
	// Specified is true if the config sets the GID.
	Specified bool
}

// ImageUser is the user of every image. The account of this user exists independently of configs.
const ImageUser = "core"

// passwd reads the groups, then the users. passwd keeps the order of the config, which determines the order of new
// numbers.
func (r *reader) passwd(p ign.Passwd) {
	for _, g := range p.Groups {
		r.group(g)
	}
	for _, u := range p.Users {
		r.user(u)
	}
}

// group reads a group. Only a first boot sets a group's password; disruption.Refuse reports a new password.
func (r *reader) group(g ign.PasswdGroup) {
	field := "passwd.groups " + g.Name
	switch {
	case !disruption.ValidAccount(g.Name):
		return
	case r.accounts.Image[g.Name]:
		r.addProblem(disruption.CheckAccounts, field, "it comes with the node's image and cannot be changed in place: "+
			"choose another name, or change the image")
		return
	}
	want := Group{Name: g.Name, Removed: g.ShouldExist != nil && !*g.ShouldExist, Specified: g.Gid != nil}
	switch gid, known := r.gids[g.Name]; {
	case g.Gid != nil:
		want.GID = *g.Gid
	case known:
		want.GID = gid
	case !want.Removed:
		want.GID = r.freeGID(g.System != nil && *g.System, -1)
	}
	if !want.Removed {
		r.gids[g.Name] = want.GID
	} else {
		delete(r.gids, g.Name)
	}
	r.w.Groups = append(r.w.Groups, want)
}

func (r *reader) user(u ign.PasswdUser) {
	field := "passwd.users " + u.Name
	switch {
	case !disruption.ValidAccount(u.Name):
		return
	case r.accounts.Image[u.Name]:
		r.addProblem(disruption.CheckAccounts, field, "it comes with the node's image and cannot be changed in place: "+
			"choose another name, or change the image")
		return
	}
	want := User{Name: u.Name, Removed: u.ShouldExist != nil && !*u.ShouldExist, NoHome: u.NoCreateHome != nil &&
		*u.NoCreateHome}
	if want.Removed {
		r.removeOwnGroup(u.Name)
		delete(r.uids, u.Name)
		r.w.Users = append(r.w.Users, want)
		return
	}
	want.Account = host.User{There: true}
	want = r.withIDs(r.withTexts(want, u), u)
	hash := host.NoPassword
	if u.PasswordHash != nil && *u.PasswordHash != "" {
		hash = *u.PasswordHash
	}
	want.Specified.Password = u.PasswordHash != nil
	want.Account.Password = r.addPassword(hash)
	r.w.Users = append(r.w.Users, want)
	r.addKeys(want, u)
}

// removeOwnGroup removes a user's own group with the user, as userdel does. A user's own group is the group with the
// user's name, unless another user has it as primary group.
func (r *reader) removeOwnGroup(name string) {
	owner, known := r.uids[name]
	gid, named := r.gids[name]
	said := slices.ContainsFunc(r.w.Groups, func(g Group) bool { return g.Name == name })
	if !known || !named || gid != owner.GID || said {
		return
	}
	for other, o := range r.uids {
		if other != name && o.GID == gid {
			return
		}
	}
	delete(r.gids, name)
	r.w.Groups = append(r.w.Groups, Group{Name: name, Removed: true})
}

// addPassword adds the hash of a password to the contents.
func (r *reader) addPassword(hash string) host.Digest {
	d := host.DigestOf([]byte(hash))
	r.w.Contents[d] = []byte(hash)
	return d
}

// withTexts returns a user with the text attributes of the config.
func (r *reader) withTexts(want User, u ign.PasswdUser) User {
	d := r.accounts.Defaults.Filled()
	home := cmp.Or(r.accounts.Homes[u.Name], r.accounts.Left[u.Name].Home, path.Join(d.HomeBase, u.Name))
	for _, f := range []struct {
		value     *string
		otherwise string
		to        *string
		says      *bool
	}{
		{u.Gecos, "", &want.Account.Gecos, &want.Specified.Gecos},
		{u.HomeDir, home, &want.Account.Home, &want.Specified.Home},
		{u.Shell, d.Shell, &want.Account.Shell, &want.Specified.Shell},
	} {
		*f.to = f.otherwise
		if f.value != nil && *f.value != "" {
			*f.to, *f.says = *f.value, true
		}
	}
	if !path.IsAbs(want.Account.Home) || path.Clean(want.Account.Home) != want.Account.Home {
		if !want.Specified.Home {
			r.addProblem(disruption.CheckAccounts, "passwd.users "+u.Name+" homeDir",
				"the node has none that is an absolute, clean path: write one like /home/"+u.Name)
		}
		want.Account.Home = "/"
	}
	return want
}

// withIDs returns a user with the groups of the config, and with the numbers that the config omits: those that the name
// has on the machine, or those that useradd would choose.
func (r *reader) withIDs(want User, u ign.PasswdUser) User {
	system := u.System != nil && *u.System
	owner, known := r.uids[u.Name]
	want.Account.UID, want.Specified.UID = owner.UID, u.UID != nil
	switch d := r.accounts.Defaults.Filled(); {
	case u.UID != nil:
		want.Account.UID = *u.UID
	case !known:
		want.Account.UID = r.freeUID(u.Name, system, d)
	}
	want.Specified.GID = u.PrimaryGroup != nil && *u.PrimaryGroup != ""
	if want.Specified.GID {
		want.Account.GID = r.gid(u.Name, *u.PrimaryGroup)
	} else {
		want.Account.GID = r.ownGroup(want.Account.UID, u, owner)
	}
	r.uids[u.Name] = want.Account.Owner()
	var names []string
	for _, g := range u.Groups {
		r.gid(u.Name, string(g))
		names = append(names, string(g))
	}
	want.Specified.Groups, want.Account.Groups = len(names) > 0, host.JoinNames(names)
	return want
}

// gid resolves the name or number of a group.
func (r *reader) gid(user, group string) int {
	id, known := r.gids[group]
	if n, err := strconv.Atoi(group); err == nil {
		id, known = n, slices.Contains(slices.Collect(maps.Values(r.gids)), n)
	}
	if !known && r.accounts.Groups != nil {
		r.addProblem(disruption.CheckAccounts, "passwd.users "+user,
			fmt.Sprintf("group %q does not exist on this node or in this config: add it to passwd.groups, or "+
				"take it out", group))
	}
	return id
}

// ownGroup returns the primary group of a user for whom the config names none. The result is the user's present group,
// or else a group with the user's name.
func (r *reader) ownGroup(uid int, u ign.PasswdUser, owner host.Owner) int {
	_, known := r.uids[u.Name]
	gid, named := r.gids[u.Name]
	listed := slices.ContainsFunc(r.w.Groups, func(g Group) bool { return g.Name == u.Name })
	made := named && r.accounts.Made[u.Name] && !listed
	switch {
	case known && (!named || gid != owner.GID):
		return owner.GID
	case known && !made && (u.Name == ImageUser || owner.UID == 0): // The image contains the account of this user.
		return gid
	case !known && u.NoUserGroup != nil && *u.NoUserGroup:
		return r.gid(u.Name, strconv.Itoa(r.accounts.Defaults.Filled().Group))
	case !known && named && !made:
		r.addProblem(disruption.CheckAccounts, "passwd.users "+u.Name,
			fmt.Sprintf("a group %q is there already, so the "+
				"user cannot have one of its own: say primaryGroup: %s, or noUserGroup: true", u.Name, u.Name))
		return gid
	case !named:
		gid = r.freeGID(u.System != nil && *u.System, cmp.Or(r.former[u.Name].GID, uid))
		r.gids[u.Name] = gid
	}
	if !listed {
		r.w.Groups = append(r.w.Groups, Group{Name: u.Name, GID: gid})
	}
	return gid
}

// freeGID chooses the number of a new group. freeGID returns the preferred number if it is free, as useradd does for a
// user's own group.
func (r *reader) freeGID(system bool, preferred int) int {
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

// freeUID chooses the number of a new user. A user who existed before gets the same number, so that the user owns the
// old files again. Other users get a number that no user has or had.
func (r *reader) freeUID(name string, system bool, d host.AccountDefaults) int {
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

// highest returns the number above all used numbers of a range. If the last number of the range is used, highest
// returns the first free number.
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

// lowest returns the number below all used numbers of a range, as for system accounts.
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

// addKeys writes a user's SSH keys to the file of the daemon. The user owns the missing directories that it creates
// above the file.
func (r *reader) addKeys(want User, u ign.PasswdUser) {
	var lines strings.Builder
	for _, key := range u.SSHAuthorizedKeys {
		lines.WriteString(strings.TrimRight(string(key), "\n") + "\n")
	}
	if lines.Len() == 0 {
		return
	}
	owner := want.Account.Owner()
	if r.accounts.Unprivileged {
		owner = host.Owner{}
	}
	dir := host.Entry{Kind: host.Dir, Mode: 0o700, Owner: owner}
	k := keysFileIn(want.Account.Home, r.accounts.KeysFile)
	if want.Account.Home != "/" {
		r.w.Parents[want.Account.Home] = dir
	}
	for at := path.Dir(k.Path); at != want.Account.Home && at != "/"; at = path.Dir(at) {
		r.w.Parents[at] = dir
	}
	if !want.Specified.Home {
		r.keysFiles[k.Path] = true
	}
	_, twice := r.w.Paths[k.Path]
	r.addFile(k.Path, []byte(lines.String()), host.Entry{Mode: 0o600, Owner: owner})
	if _, added := r.w.Paths[k.Path]; added && !twice {
		r.w.Keys[want.Name] = k
	}
}

// keysFileIn returns the file with SSH keys in a home directory. The parameter file is its path below the directory,
// distribution.KeysFile or distribution.KeysFragment; "" stands for the former.
func keysFileIn(home, file string) KeysFile {
	both := disruption.KeysPaths(home)
	if path.Join(home, file) == both[1] {
		return KeysFile{Path: both[1], Other: both[0]}
	}
	return KeysFile{Path: both[0], Other: both[1]}
}
