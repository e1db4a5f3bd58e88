package plan

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Scope is the part of a machine that an update may change.
type Scope struct {
	// Paths are the paths to observe, sorted: the paths of both configs, their parents, their originals, and the
	// record.
	Paths []string
	// Units to observe, sorted.
	Units []string
	// Users and Groups to observe, sorted.
	Users, Groups []string
	// Homes are the home directories of users with SSH keys.
	Homes []string
	// Read are the paths whose contents are needed: files with appended parts, and the records of accounts.
	Read []string
	// HardLinks are the hard links of the configs, those of an earlier config first.
	HardLinks []HardLink
	// Replaced are links that the update removes or replaces. Nothing is observed below them.
	Replaced map[string]bool
	// Kargs are the kernel arguments of the configs. The daemon ignores the machine's other arguments.
	Kargs []string
}

// HardLink is the second name of a file, and its first name.
type HardLink struct{ Path, Target string }

// ScopeOf returns the parts of a machine that the daemon must observe for a transition between the configs.
func ScopeOf(configs ...Desired) Scope {
	s := scopeBuilder{}
	replaced := map[string]bool{}
	s.addPaths(host.RecordPath, host.ImageMark)
	for i, c := range configs {
		maps.Copy(replaced, c.Replaces)
		for p := range c.Appends {
			s.read = append(s.read, p, origPath(p))
		}
		s.addAccounts(c)
		for _, p := range slices.Sorted(maps.Keys(c.Paths)) {
			s.addPath(c, p, c.Paths[p])
			before := func(other Desired) bool { _, known := other.Paths[p]; return known }
			if !slices.ContainsFunc(configs[:i], before) {
				s.addManaged(p)
			}
		}
		for u := range c.Units {
			s.addUnit(u)
		}
		if len(c.Units) > 0 {
			s.read = append(s.read, host.UnitsPath)
		}
		s.kargs = append(s.kargs, host.SplitArgs(c.OS.Kargs)...)
	}
	s.paths = append(s.paths, s.read...)
	return Scope{
		HardLinks: s.hard, Replaced: replaced, Paths: withParents(sorted(s.paths)), Units: sorted(s.units),
		Kargs: sorted(s.kargs), Homes: sorted(s.homes),
		Users: sorted(s.users), Groups: sorted(s.groups), Read: sorted(s.read),
	}
}

// scopeBuilder collects a Scope, in any order and with repetitions.
type scopeBuilder struct {
	paths, read, units, users, groups, kargs, homes []string
	hard                                            []HardLink
}

func (s *scopeBuilder) addPaths(paths ...string) { s.paths = append(s.paths, paths...) }

func (s *scopeBuilder) addUnit(name string) {
	s.units = append(s.units, name)
	s.addPaths(UnitPath(name))
	if template, _ := host.TemplateOf(name); template != "" {
		s.addPaths(UnitPath(template))
	}
}

func (s *scopeBuilder) addAccounts(c Desired) {
	if len(c.Users)+len(c.Groups) > 0 {
		s.read = append(s.read, host.AccountsPath)
	}
	for _, u := range c.Users {
		s.users = append(s.users, u.Name)
		if u.Removed {
			continue
		}
		home := c.At(u.Account.Home)
		s.addPaths(home)
		s.homes = append(s.homes, home)
		for _, p := range c.Skeleton {
			s.addPaths(path.Join(home, p))
		}
	}
	for _, g := range c.Groups {
		s.groups = append(s.groups, g.Name)
	}
}

// addPath adds the paths that must be observed for one path of a config.
func (s *scopeBuilder) addPath(c Desired, p string, e host.Entry) {
	if ownerOf(p) != "" {
		// The original is read too, because its [Install] section counts as soon as the file is restored.
		s.read = append(s.read, origPath(p))
	}
	of := e
	if to := linkedFile(c, c.Paths, p); to != "" {
		// What is there counts as if it were here. If it is not the config's, only the machine has it.
		s.read = append(s.read, to)
		of = c.Paths[to]
	}
	if of.Kind == host.File && ownerOf(p) != "" {
		for _, also := range host.AlsoOf(host.InstallOf(c.Contents[of.Digest])) {
			s.units = append(s.units, also)
			s.addPaths(UnitPath(also))
		}
	}
	if e.Kind == host.Hard {
		s.hard = append(s.hard, HardLink{p, e.Target})
		s.addPaths(e.Target)
	}
}

// addManaged adds the paths that must be observed for every managed path.
func (s *scopeBuilder) addManaged(p string) {
	s.addPaths(p, origPath(p), noOrigPath(p))
	if image := imagePath(p); image != "" {
		s.read = append(s.read, image)
	}
}

// sorted sorts texts and removes duplicates.
func sorted(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// withParents adds the directories above sorted paths.
func withParents(paths []string) []string {
	dirs := map[string]bool{}
	for _, p := range paths {
		for dir := range disruption.Parents(p) {
			if dirs[dir] {
				break
			}
			dirs[dir] = true
		}
	}
	return sorted(slices.AppendSeq(paths, maps.Keys(dirs)))
}

// Managed returns the kernel arguments of a machine that are in the scope.
func (s Scope) Managed(kargs string) string {
	return host.JoinArgs(slices.DeleteFunc(host.SplitArgs(kargs), func(a string) bool {
		return !slices.Contains(s.Kargs, a)
	}))
}

// imagePath returns the path below /usr/etc for a path below /etc; "" for other paths.
func imagePath(p string) string {
	if !below(p, "/etc") || p == "/etc" {
		return ""
	}
	return "/usr" + p
}

func origPath(p string) string   { return host.OrigDir + p + ".mcdorig" }
func noOrigPath(p string) string { return host.NoOrigDir + p + ".mcdnoorig" }

// below reports whether a path is dir, or is below dir.
func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
