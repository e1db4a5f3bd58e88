package policy

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// The longest names of a config's paths. A file system takes 255 bytes in a name and 4095 in a path, and the daemon keeps
// what was there first below a directory of its own, under the name with a suffix.
const (
	maxName = 255 - len(".mcdnoorig")
	maxPath = 4095 - len(v1alpha1.DaemonNoOrigDir) - len(".mcdnoorig")
)

// accountName is what useradd takes without being told to take bad names.
var accountName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)

// Invalid returns what no running node can take of a config, whatever it runs now: paths that belong to the daemon, names
// that are too long, paths that exclude each other, accounts that no machine can have, directories of one user below those of another. `validate` and the renderer refuse
// such a config, so that no rollout begins with it; the daemon repeats the check.
func Invalid(c machineconfig.Config) []Refusal {
	flat, err := machineconfig.Flat(c)
	if err != nil {
		return []Refusal{{Field: "ignition.config", Why: err.Error(), Kind: KindIgnition, Name: "config"}}
	}
	all := invalidAccounts(flat.Ignition.Passwd)
	places := placesOf(flat.Ignition)
	all = append(all, invalidPlaces(places)...)
	all = append(all, lostOwners(flat.Ignition)...)
	return append(all, nestedOwners(flat.Ignition)...)
}

// place is what a config puts at one path of a running node.
type place struct {
	path   string
	kind   placeKind
	target string
	// of and name are the item that puts it there.
	of   ChangeKind
	name string
}

type placeKind int

const (
	placeDir placeKind = iota
	placeFile
	placeLink
	placeHardLink
)

func (p place) refuse(why string) Refusal {
	r := Refusal{Field: p.path, Why: why, Kind: p.of, Name: p.name}
	switch {
	case p.kind == placeHardLink:
		r.Field = "storage.links " + p.path
	case p.path == ForceFile:
		r.Field = "storage.files " + p.path
	}
	return r
}

// placesOf lists what a flat config puts at paths, in the order in which the daemon reads it. Keys of a user whose home
// directory the config does not name are left out: only the node knows where that is.
func placesOf(c ign.Config) (all []place) {
	for _, u := range c.Passwd.Users {
		if exists(u.ShouldExist) && u.HomeDir != nil && *u.HomeDir != "" && len(u.SSHAuthorizedKeys) > 0 {
			all = append(all, place{path: KeysPath(*u.HomeDir), kind: placeFile, of: KindUser, name: u.Name})
		}
	}
	for _, d := range c.Storage.Directories {
		all = append(all, place{path: path.Clean(d.Path), kind: placeDir, of: KindDirectory, name: d.Path})
	}
	for _, f := range c.Storage.Files {
		all = append(all, place{path: path.Clean(f.Path), kind: placeFile, of: KindFile, name: f.Path})
	}
	for _, l := range c.Storage.Links {
		if l.Target == nil {
			continue
		}
		p := place{path: path.Clean(l.Path), kind: placeLink, target: *l.Target, of: KindLink, name: l.Path}
		if isHard(l) {
			p.kind, p.target = placeHardLink, path.Clean(path.Join("/", *l.Target))
		}
		all = append(all, p)
	}
	for _, u := range c.Systemd.Units {
		all = append(all, unitPlaces(u)...)
	}
	return all
}

// unitPlaces are a unit's file or mask, and its drop-ins.
func unitPlaces(u ign.Unit) (all []place) {
	at := place{path: v1alpha1.UnitDir + "/" + u.Name, kind: placeFile, of: KindUnit, name: u.Name}
	switch {
	case isTrue(u.Mask):
		at.kind, at.target = placeLink, "/dev/null"
		all = append(all, at)
	case u.Contents != nil && *u.Contents != "":
		all = append(all, at)
	}
	for _, d := range u.Dropins {
		if d.Contents != nil {
			all = append(all, place{path: v1alpha1.UnitDir + "/" + u.Name + ".d/" + d.Name, kind: placeFile, of: KindUnit, name: u.Name})
		}
	}
	return all
}

// KeysPath is the file of a user's SSH keys in a home directory.
func KeysPath(home string) string { return path.Join(home, ".ssh", "authorized_keys.d", "ignition") }

// invalidPlaces refuses paths that no config can have, and paths that exclude each other.
func invalidPlaces(places []place) (all []Refusal) {
	kinds := make(map[string]placeKind, len(places))
	links := map[string]string{}
	for _, p := range places {
		_, twice := kinds[p.path]
		switch why := ReservedPath(p.path); {
		case why != "":
			all = append(all, p.refuse(why))
			continue
		case p.kind == placeDir && path.Dir(p.path) == v1alpha1.UnitDir && serviceName.MatchString(path.Base(p.path)):
			all = append(all, p.refuse("systemd looks for a unit's file here, and a directory is none: its drop-ins belong to "+p.path+".d"))
			continue
		case twice:
			all = append(all, p.refuse("more than one part of the config is about this path: keep one"))
			continue
		}
		kinds[p.path] = p.kind
		if p.kind == placeLink {
			links[p.path] = p.target
		}
	}
	for _, p := range places {
		for dir := range Parents(p.path) {
			if kind, known := kinds[dir]; known && kind != placeDir {
				what := "file"
				if kind == placeLink {
					what = "link"
				}
				all = append(all, p.refuse(fmt.Sprintf("%s is a %s of the same config, so nothing can be in it: take one of them out", dir, what)))
				break
			}
		}
		if kind, known := kinds[p.target]; p.kind == placeHardLink && known && kind != placeFile && kind != placeLink {
			all = append(all, p.refuse(fmt.Sprintf("it is a hard link to %s, which is neither a file nor a link in the same config: name one that is", p.target)))
		}
	}
	return append(all, endless(places, links)...)
}

// endless refuses links that lead to themselves: what is below them could never be looked at.
func endless(places []place, links map[string]string) (all []Refusal) {
	for _, p := range places {
		if p.kind != placeLink {
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

// maxLinks is how many links the kernel follows.
const maxLinks = 40

// ReservedPath says why no config can have a path, or "": the daemon keeps there what it needs to go back, or a name in the
// path is too long to be kept.
func ReservedPath(p string) string {
	if p == ForceFile {
		return "this file makes the daemon skip its checks and cannot come from a config: remove it here, and touch it on the node by hand if you must"
	}
	for _, own := range []string{
		v1alpha1.DaemonRecordPath, v1alpha1.DaemonOrigDir, v1alpha1.DaemonNoOrigDir, v1alpha1.DaemonAccountsPath,
		v1alpha1.DaemonStateDir, v1alpha1.DaemonForcePath,
	} {
		if p == own || strings.HasPrefix(p, own+"/") {
			return own + " belongs to the daemon, which keeps there what it needs to go back: take this path out of the config"
		}
	}
	if len(p) > maxPath {
		return fmt.Sprintf("it has %d bytes, at most %d: shorten it", len(p), maxPath)
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxName {
			return fmt.Sprintf("a name in it has %d bytes, at most %d: shorten it", len(name), maxName)
		}
	}
	if base := path.Base(p); strings.HasPrefix(base, ".") && strings.HasSuffix(base, v1alpha1.DaemonNewSuffix) {
		return "names like this are the daemon's while it writes another file: choose another one"
	}
	return ""
}

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

// ResolveLinks follows the links in the way to a path, as far as they are known.
func ResolveLinks(links map[string]string, p string) string {
	for range maxLinks {
		link := ""
		for dir := range Parents(p) {
			if _, is := links[dir]; is {
				link = dir // the topmost counts
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
