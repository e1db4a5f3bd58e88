package disruption

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/internal/distribution"
)

// accountName: the names that useradd accepts by default.
var accountName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)

// Invalid returns the parts of a config that no running node can apply: paths of the daemon and of the kernel, names
// that are too long, paths that exclude each other, invalid accounts, and directories of one user below those of
// another. Validation and the renderer refuse such a config before a rollout; the daemon repeats the check.
func Invalid(c machineconfig.Config) []Refusal {
	flat, err := machineconfig.Flat(c)
	if err != nil {
		return []Refusal{{Field: "ignition.config", Why: err.Error(), Kind: KindIgnition, Name: "config"}}
	}
	all := invalidAccounts(flat.Ignition.Passwd)
	paths := managedPaths(flat.Ignition)
	all = append(all, invalidPaths(paths)...)
	all = append(all, linkedUnits(flat.Ignition)...)
	all = append(all, removedOwners(flat.Ignition)...)
	all = append(all, invalidOwners(flat.Ignition)...)
	return append(all, nestedOwners(flat.Ignition)...)
}

// linkedUnits refuses links that enable a unit which the config disables.
func linkedUnits(c ign.Config) (all []Refusal) {
	disabled := map[string]bool{}
	for _, u := range c.Systemd.Units {
		disabled[u.Name] = u.Enabled != nil && !*u.Enabled && !isTrue(u.Mask)
	}
	for _, l := range c.Storage.Links {
		if isHard(l) {
			continue
		}
		for _, unit := range UnitsEnabledBy(path.Clean(l.Path), deref(l.Target)) {
			if disabled[unit] {
				all = append(all, Refusal{
					Field: "storage.links " + l.Path, Why: fmt.Sprintf("this link enables %s, and the config disables "+
						"it with enabled: false: remove one of them", unit),
					Kind: KindLink, Name: l.Path,
				})
			}
		}
	}
	return all
}

// UnitsEnabledBy returns the units that a link at a path enables, because it makes another unit start them: the one
// with the name of the link, and for systemctl also the one to which the link leads.
func UnitsEnabledBy(p, target string) []string {
	dir, name, to := path.Dir(p), path.Base(p), path.Base(target)
	kinds := []string{".wants", ".requires", ".upholds"}
	switch {
	case path.Dir(dir) != nodepath.UnitDir || !slices.Contains(kinds, path.Ext(dir)):
		return nil
	case name == to || strings.Contains(to, "@."): // An instance leads to the file of its template.
		return []string{name}
	}
	return []string{name, to}
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

// nestedOwners refuses a directory of one user below that of another, who could replace it. Two owners are compared if
// the config gives both by number or both by name, or gives the number of a name.
func nestedOwners(c ign.Config) (all []Refusal) {
	numbers := map[string]string{}
	for _, u := range c.Passwd.Users {
		if exists(u.ShouldExist) && u.UID != nil {
			numbers[u.Name] = strconv.Itoa(*u.UID)
		}
	}
	owners := map[string]dirOwner{}
	for _, d := range c.Storage.Directories {
		if o := ownerOf(d.User, numbers); o != (dirOwner{}) {
			owners[path.Clean(d.Path)] = o
		}
	}
	for _, d := range c.Storage.Directories {
		at := path.Clean(d.Path)
		own, owned := owners[at]
		for above := path.Dir(at); owned && above != "/" && above != "."; above = path.Dir(above) {
			other, ok := owners[above]
			if ok && own != other && own.byName == other.byName {
				all = append(all, managedPath{path: at, kind: pathDir, of: KindDirectory, name: d.Path}.refuse(
					fmt.Sprintf(
						"user %s owns this directory, and user %[3]s owns %[2]s above it and could replace it: give "+
							"one of the two directories to root, or both to one user", own.user, above, other.user)))
				break
			}
		}
	}
	return all
}

// ownerOf returns the owner in a config; zero for root and for none. numbers has the uids of the config's users.
func ownerOf(u ign.NodeUser, numbers map[string]string) dirOwner {
	switch {
	case u.ID != nil && *u.ID != 0:
		return dirOwner{user: strconv.Itoa(*u.ID)}
	case u.ID != nil || u.Name == nil || *u.Name == "" || *u.Name == "root":
		return dirOwner{}
	}
	if number, known := numbers[*u.Name]; known {
		return dirOwner{user: number}
	}
	return dirOwner{user: *u.Name, byName: true}
}

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

// invalidAccounts refuses what cannot exist on any machine.
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
	if shell := deref(u.Shell); shell != "" && !path.IsAbs(shell) {
		all = append(all, Refusal{Field: field + " shell", Why: "it is not an absolute path, and useradd refuses it: " +
			"write one like /bin/bash"})
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

type managedPath struct {
	path   string
	kind   pathKind
	target string
	// the item of the config that sets the path
	of   ChangeKind
	name string
}

type pathKind int

const (
	pathDir pathKind = iota
	pathFile
	pathLink
	pathHardLink
)

// String returns the name of the kind for messages.
func (k pathKind) String() string { return [...]string{"directory", "file", "link", "file"}[k] }

func (p managedPath) refuse(why string) Refusal {
	r := Refusal{Field: p.path, Why: why, Kind: p.of, Name: p.name}
	switch {
	case p.kind == pathHardLink:
		r.Field = "storage.links " + p.path
	case p.path == ForceFile:
		r.Field = "storage.files " + p.path
	}
	return r
}

// managedPaths lists the paths that a flat config sets, in the order in which the daemon reads them. The keys of a user
// without a home directory in the config are left out, because only the node knows it. Of a user with one, it lists
// every path that the keys can have, because a config is for nodes of any operating system.
func managedPaths(c ign.Config) (all []managedPath) {
	for _, u := range c.Passwd.Users {
		if exists(u.ShouldExist) && u.HomeDir != nil && *u.HomeDir != "" && len(u.SSHAuthorizedKeys) > 0 {
			for _, at := range KeysPaths(*u.HomeDir) {
				all = append(all, managedPath{path: at, kind: pathFile, of: KindUser, name: u.Name})
			}
		}
	}
	for _, d := range c.Storage.Directories {
		all = append(all, managedPath{path: path.Clean(d.Path), kind: pathDir, of: KindDirectory, name: d.Path})
	}
	for _, f := range c.Storage.Files {
		all = append(all, managedPath{path: path.Clean(f.Path), kind: pathFile, of: KindFile, name: f.Path})
	}
	for _, l := range c.Storage.Links {
		if l.Target == nil {
			continue
		}
		p := managedPath{path: path.Clean(l.Path), kind: pathLink, target: *l.Target, of: KindLink, name: l.Path}
		if isHard(l) {
			p.kind, p.target = pathHardLink, path.Clean(path.Join("/", *l.Target))
		}
		all = append(all, p)
	}
	for _, u := range c.Systemd.Units {
		all = append(all, unitPaths(u)...)
	}
	return all
}

// unitPaths lists a unit's file or mask, and its drop-ins.
func unitPaths(u ign.Unit) (all []managedPath) {
	at := managedPath{path: nodepath.UnitDir + "/" + u.Name, kind: pathFile, of: KindUnit, name: u.Name}
	switch {
	case isTrue(u.Mask):
		at.kind, at.target = pathLink, "/dev/null"
		all = append(all, at)
	case u.Contents != nil && *u.Contents != "":
		all = append(all, at)
	}
	for _, d := range u.Dropins {
		if d.Contents != nil {
			all = append(all, managedPath{
				path: nodepath.UnitDir + "/" + u.Name + ".d/" + d.Name, kind: pathFile,
				of: KindUnit, name: u.Name,
			})
		}
	}
	return all
}

// KeysPaths returns the paths that a user's SSH keys can have in a home directory, depending on the operating system.
func KeysPaths(home string) []string {
	return []string{path.Join(home, distribution.KeysFile), path.Join(home, distribution.KeysFragment)}
}

// invalidPaths also refuses paths that exclude each other.
func invalidPaths(paths []managedPath) (all []Refusal) {
	kinds := make(map[string]pathKind, len(paths))
	links := map[string]string{}
	for _, p := range paths {
		if reason := invalidPath(p, kinds); reason != "" {
			all = append(all, p.refuse(reason))
			continue
		}
		kinds[p.path] = p.kind
		if p.kind == pathLink {
			links[p.path] = p.target
		}
	}
	for _, p := range paths {
		if dir, kind := fileAbove(p.path, kinds); dir != "" {
			all = append(all,
				p.refuse(fmt.Sprintf("%s is a %s of the same config, so no path can be below it: remove one of them",
					dir, kind)))
		}
		if kind, known := kinds[p.target]; p.kind == pathHardLink && known && kind != pathFile && kind != pathLink {
			all = append(all,
				p.refuse(fmt.Sprintf("it is a hard link to %s, which is neither a file nor a link in the same "+
					"config: name one that is", p.target)))
		}
	}
	return append(all, endlessLinks(paths, links)...)
}

// invalidPath returns why a path cannot be in a config, or "". kinds has the paths that were read before.
func invalidPath(p managedPath, kinds map[string]pathKind) string {
	if reason := nodepath.Reserved(p.path); reason != "" {
		return reason
	}
	if at := nodepath.PlaceOf(p.path, ""); at.Fate == nodepath.OfKernel {
		return at.Says() + ": " + at.Instead
	}
	if p.kind == pathDir && path.Dir(p.path) == nodepath.UnitDir && serviceName.MatchString(path.Base(p.path)) {
		return "systemd expects the file of a unit at this path, not a directory: put drop-ins into " + p.path + ".d"
	}
	if _, twice := kinds[p.path]; twice {
		return "more than one part of the config is about this path: keep one"
	}
	return ""
}

// fileAbove returns the nearest parent that is a file or a link in the config; "" if there is none.
func fileAbove(p string, kinds map[string]pathKind) (dir string, kind pathKind) {
	for dir := range Parents(p) {
		if kind, known := kinds[dir]; known && kind != pathDir {
			return dir, kind
		}
	}
	return "", pathDir
}

// endlessLinks refuses links that lead to themselves: no program can open a path below them.
func endlessLinks(paths []managedPath, links map[string]string) (all []Refusal) {
	for _, p := range paths {
		if p.kind != pathLink {
			continue
		}
		at, steps := p.path, 0
		for ; steps < maxLinks; steps++ {
			target, is := links[at]
			if !is {
				break
			}
			if !path.IsAbs(target) {
				target = path.Join(path.Dir(at), target)
			}
			if at = ResolveLinks(links, path.Clean(target)); at == p.path || strings.HasPrefix(at, p.path+"/") {
				steps = maxLinks
			}
		}
		if steps >= maxLinks {
			all = append(all, p.refuse("the link leads to itself: give another target"))
		}
	}
	return all
}

// maxLinks: the kernel follows so many.
const maxLinks = 40

// Parents yields the directories above a clean path, the nearest first, without the root.
func Parents(p string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p[:i], '/') {
			if !yield(p[:i]) {
				return
			}
		}
	}
}

// ResolveLinks resolves the known links in the parents of a path.
func ResolveLinks(links map[string]string, p string) string {
	for range maxLinks {
		link := ""
		for dir := range Parents(p) {
			if _, is := links[dir]; is {
				link = dir // The topmost link takes precedence.
			}
		}
		if link == "" {
			break
		}
		to := links[link]
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(link), to)
		}
		p = path.Join(to, strings.TrimPrefix(p, link))
	}
	return p
}

// dirOwner is the number of a user other than root, or a name if only the node knows the number.
type dirOwner struct {
	user   string
	byName bool
}
