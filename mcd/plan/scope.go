package plan

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

// Scope is the part of a machine that an update is about.
type Scope struct {
	// Paths to look at, in lexical order: those of both configs, their parents, the daemon's backups of them, its record.
	Paths []string
	// Units to ask about, in lexical order.
	Units []string
	// Users and Groups to ask about, in lexical order.
	Users, Groups []string
	// Homes are the home directories of users who get keys.
	Homes []string
	// Read are the paths whose contents are needed: what is appended to, and what accounts were before.
	Read []string
	// Hard are the hard links that the configs name, with the target that each config gives.
	Hard map[string][]string
	// Kargs that the configs name; others on the machine are nobody's.
	Kargs []string
}

// ScopeOf is what has to be observed before Target can say anything about a way between the configs.
func ScopeOf(configs ...Wanted) Scope {
	s := scoper{hard: map[string][]string{}}
	s.look(host.RecordPath, imageMark)
	for i, c := range configs {
		for p := range c.Appends {
			s.read = append(s.read, p, origPath(p))
		}
		s.accounts(c)
		for p, e := range c.Paths {
			s.path(c, p, e)
			before := func(other Wanted) bool { _, known := other.Paths[p]; return known }
			if !slices.ContainsFunc(configs[:i], before) {
				s.around(p)
			}
		}
		for u := range c.Units {
			s.unit(u)
		}
		s.kargs = append(s.kargs, host.SplitArgs(c.OS.Kargs)...)
	}
	s.paths = append(s.paths, s.read...)
	return Scope{
		Hard: s.hard, Paths: withParents(sorted(s.paths)), Units: sorted(s.units), Kargs: sorted(s.kargs),
		Homes: sorted(s.homes), Users: sorted(s.users), Groups: sorted(s.groups), Read: sorted(s.read),
	}
}

// scoper collects a Scope, in any order and with repetitions.
type scoper struct {
	paths, read, units, users, groups, kargs, homes []string
	hard                                            map[string][]string
}

func (s *scoper) look(paths ...string) { s.paths = append(s.paths, paths...) }

func (s *scoper) unit(name string) {
	s.units = append(s.units, name)
	s.look(UnitPath(name))
	if template, _ := host.TemplateOf(name); template != "" {
		s.look(UnitPath(template))
	}
}

func (s *scoper) accounts(c Wanted) {
	if len(c.Users)+len(c.Groups) > 0 {
		s.read = append(s.read, host.AccountsPath)
	}
	for _, u := range c.Users {
		s.users = append(s.users, u.Name)
		if u.Gone {
			continue
		}
		s.look(u.New.Home)
		s.homes = append(s.homes, u.New.Home)
		for _, p := range c.Skeleton {
			s.look(path.Join(u.New.Home, p))
		}
	}
	for _, g := range c.Groups {
		s.groups = append(s.groups, g.Name)
	}
}

// path is what a config's own way to speak about a path needs.
func (s *scoper) path(c Wanted, p string, e host.Entry) {
	if e.Kind == host.File && ownerOf(p) != "" {
		s.read = append(s.read, origPath(p)) // if it comes back, what it says of [Install] counts again
		for _, also := range host.AlsoOf(host.InstallOf(c.Contents[e.Digest])) {
			s.units = append(s.units, also)
			s.look(UnitPath(also))
		}
	}
	if e.Kind == host.Hard {
		s.hard[p] = append(s.hard[p], e.Target)
		s.look(e.Target)
	}
}

// around is what every path that is managed needs.
func (s *scoper) around(p string) {
	s.look(p, origPath(p), noOrigPath(p))
	if image := pristinePath(p); image != "" {
		s.read = append(s.read, image)
	}
}

// LinkedTo is where a link at a path leads.
func LinkedTo(at, target string) string {
	if path.IsAbs(target) {
		return path.Clean(target)
	}
	return path.Join(path.Dir(at), target)
}

// sorted puts texts in order, each once.
func sorted(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// withParents adds the directories above sorted paths.
func withParents(paths []string) []string {
	dirs := map[string]bool{}
	for _, p := range paths {
		for dir := range policy.Parents(p) {
			if dirs[dir] {
				break
			}
			dirs[dir] = true
		}
	}
	return sorted(slices.AppendSeq(paths, maps.Keys(dirs)))
}

// Managed filters a machine's kernel arguments down to those of the scope.
func (s Scope) Managed(kargs string) string {
	return host.JoinArgs(slices.DeleteFunc(host.SplitArgs(kargs), func(a string) bool { return !slices.Contains(s.Kargs, a) }))
}

// imageMark is there on systems of OSTree, which keep what the image has of /etc.
const imageMark = "/ostree"

// pristinePath is where such systems keep what the image has at a path below /etc; "" for other paths.
func pristinePath(p string) string {
	if !below(p, "/etc") || p == "/etc" {
		return ""
	}
	return "/usr" + p
}

func origPath(p string) string   { return host.OrigDir + p + ".mcdorig" }
func noOrigPath(p string) string { return host.NoOrigDir + p + ".mcdnoorig" }

// below tells whether a path is a directory or something in it.
func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
