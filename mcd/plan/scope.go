package plan

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Scope is the part of a machine that an update is about.
type Scope struct {
	// Paths to look at, in lexical order: those of both configs, their parents, the daemon's backups of them, its record.
	Paths []string
	// Units to ask about, in lexical order.
	Units []string
	// Users and Groups to ask about, in lexical order.
	Users, Groups []string
	// Read are the paths whose contents are needed: what is appended to, and what accounts were before.
	Read []string
	// Hard are the hard links that the configs name, with the target that each config gives.
	Hard map[string][]string
	// Kargs that the configs name; others on the machine are nobody's.
	Kargs []string
}

// ScopeOf is what has to be observed before Target can say anything about a way between the configs.
func ScopeOf(configs ...Wanted) Scope {
	paths, read := map[string]bool{host.RecordPath: true, imageMark: true}, map[string]bool{}
	units, users, groups := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var kargs []string
	hard := map[string][]string{}
	for _, c := range configs {
		for p := range c.Appends {
			read[p], read[origPath(p)] = true, true
		}
		for _, u := range c.Users {
			users[u.Name], read[host.AccountsPath] = true, true
			if u.Gone {
				continue
			}
			paths[u.New.Home] = true
			for _, p := range c.Skeleton {
				paths[path.Join(u.New.Home, p)] = true
			}
		}
		for _, g := range c.Groups {
			groups[g.Name], read[host.AccountsPath] = true, true
		}
		for p, e := range c.Paths {
			if path.Dir(p) == host.UnitDir && e.Kind == host.File {
				for _, also := range host.AlsoOf(host.InstallOf(c.Contents[e.Digest])) {
					units[also] = true
					paths[UnitPath(also)] = true
				}
			}
			if e.Kind == host.Hard {
				hard[p], paths[e.Target] = append(hard[p], e.Target), true
			}
			paths[p] = true
			paths[origPath(p)] = true
			paths[noOrigPath(p)] = true
			if image := pristinePath(p); image != "" {
				paths[image], read[image] = true, true
			}
		}
		for u := range c.Units {
			units[u] = true
			paths[UnitPath(u)] = true
			if template, _ := host.TemplateOf(u); template != "" {
				paths[UnitPath(template)] = true
			}
		}
		kargs = append(kargs, host.SplitArgs(c.OS.Kargs)...)
	}
	maps.Copy(paths, read)
	for _, p := range slices.Collect(maps.Keys(paths)) {
		for dir := range parents(p) {
			paths[dir] = true
		}
	}
	slices.Sort(kargs)
	return Scope{
		Hard: hard, Paths: slices.Sorted(maps.Keys(paths)), Units: slices.Sorted(maps.Keys(units)), Kargs: slices.Compact(kargs),
		Users: slices.Sorted(maps.Keys(users)), Groups: slices.Sorted(maps.Keys(groups)), Read: slices.Sorted(maps.Keys(read)),
	}
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

// parents yields the directories above a path, the nearest first, without the root.
func parents(p string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
			if !yield(dir) {
				return
			}
		}
	}
}

// below tells whether a path is a directory or something in it.
func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
