package disruption

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/internal/distribution"
)

// accountName matches the names that useradd accepts by default.
var accountName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)

// Invalid returns the parts of a config that no running node can apply: paths of the daemon and of the kernel, names
// that are too long, paths that exclude each other, invalid accounts, and directories of one user below those of
// another user. Validation and the renderer refuse such a config before a rollout; the daemon repeats the check.
func Invalid(c machineconfig.Config) []Refusal {
	flat, err := machineconfig.Flat(c)
	if err != nil {
		return []Refusal{{Field: "ignition.config", Why: err.Error(), Kind: KindIgnition, Name: "config"}}
	}
	all := invalidAccounts(flat.Ignition.Passwd)
	paths := managedPaths(flat.Ignition)
	all = append(all, invalidPaths(paths)...)
	all = append(all, removedOwners(flat.Ignition)...)
	all = append(all, invalidOwners(flat.Ignition)...)
	return append(all, nestedOwners(flat.Ignition)...)
}

// managedPath is a path of a running node that a config sets.
type managedPath struct {
	path   string
	kind   pathKind
	target string
	// The fields `of` and `name` identify the item of the config that sets the path.
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

// managedPaths lists the paths that a flat config sets, in the order in which the daemon reads them. managedPaths
// leaves out the keys of a user without a home directory in the config, because only the node knows that directory. Of
// a user with one, it lists every path that the keys can have, because a config is for nodes of any operating system.
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

// KeysPaths returns the paths that a user's SSH keys can have in a home directory. Which one it is depends on the
// machine's operating system.
func KeysPaths(home string) []string {
	return []string{path.Join(home, distribution.KeysFile), path.Join(home, distribution.KeysFragment)}
}

// invalidPaths refuses paths that cannot be in a config, and paths that exclude each other.
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

// invalidPath returns why a path cannot be in a config, or "". The parameter kinds has the paths of the config that
// were read before.
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

// fileAbove returns the nearest parent of a path that is a file or a link in the config; "" if there is none.
func fileAbove(p string, kinds map[string]pathKind) (dir string, kind pathKind) {
	for dir := range Parents(p) {
		if kind, known := kinds[dir]; known && kind != pathDir {
			return dir, kind
		}
	}
	return "", pathDir
}

// endlessLinks refuses links that lead to themselves, because no program can open a path below them.
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

// maxLinks is the number of links that the kernel follows.
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
