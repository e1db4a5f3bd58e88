package kinds

import (
	"fmt"
	"slices"

	old "github.com/coreos/ignition/config/v2_4/types"
)

// deduped is a config of version 2 in which nothing occurs twice.
type deduped struct {
	cfg      old.Config
	moves    []move
	problems []IgnitionProblem
}

// later reports whether an item occurs again further down, and warns of it.
func (d *deduped) later(list string, i, n int, same func(int) bool) bool {
	for j := i + 1; j < n; j++ {
		if same(j) {
			d.problems = append(d.problems, IgnitionProblem{
				Path: fmt.Sprintf("%s.%d", list, i), Warning: true, Rule: "duplicate-item",
				Message: "it occurs again further down, and version 2 uses the last; remove this one",
			})
			return true
		}
	}
	return false
}

// dropins refuses a unit that has two drop-ins with the same name.
func (d *deduped) dropins(i int, u old.Unit) {
	for j, p := range u.Dropins {
		if slices.ContainsFunc(u.Dropins[:j], func(q old.SystemdDropin) bool { return q.Name == p.Name }) {
			d.problems = append(d.problems, IgnitionProblem{
				Path: fmt.Sprintf("$.systemd.units.%d.dropins.%d", i, j),
				Rule: "ignition-2", Message: "the unit has a drop-in of that name already; keep one of them",
			})
		}
	}
}

// appended returns the files that a config appends to. appended refuses a second entry for the same path, because
// version 3 has one entry for a path, with a list of all appended contents.
func (d *deduped) appended(cfg old.Config) []old.File {
	var out []old.File
	for i, f := range cfg.Storage.Files {
		if !f.Append {
			continue
		}
		out = append(out, f)
		if slices.ContainsFunc(slices.Delete(slices.Clone(cfg.Storage.Files), i, i+1), func(g old.File) bool {
			return g.Path == f.Path
		}) {
			d.problems = append(d.problems, IgnitionProblem{
				Path: fmt.Sprintf("$.storage.files.%d", i), Rule: "ignition-2",
				Message: "several entries for one path, of which one appends: write the config in version 3, which " +
					"has a list `append` in one entry",
			})
		}
	}
	return out
}

// nodes refuses a path that is both a file, a directory or a link.
func (d *deduped) nodes(cfg old.Config) {
	first := map[string]string{}
	see := func(list string, i int, p string) {
		at := fmt.Sprintf("$.storage.%s.%d", list, i)
		before, twice := first[p]
		if twice && (list != "files" || before != list) {
			d.problems = append(d.problems, IgnitionProblem{
				Path: at, Rule: "ignition-2",
				Message: "the path is also among the " + before + "; keep one of them",
			})
		}
		first[p] = list
	}
	for i, f := range cfg.Storage.Files {
		see("files", i, f.Path)
	}
	for i, n := range cfg.Storage.Directories {
		see("directories", i, n.Path)
	}
	for i, l := range cfg.Storage.Links {
		see("links", i, l.Path)
	}
}

// trace records which item of the original config each item of the result comes from.
func (d *deduped) trace(cfg old.Config) {
	for i, f := range d.cfg.Storage.Files {
		j := lastIndex(cfg.Storage.Files, func(g old.File) bool { return g.Path == f.Path })
		if f.Append {
			d.moved("$.storage.files.%d.append.0", "$.storage.files.%d.contents", i, j)
		}
		d.moved("$.storage.files.%d", "$.storage.files.%d", i, j)
	}
	for i, u := range d.cfg.Systemd.Units {
		j := lastIndex(cfg.Systemd.Units, func(v old.Unit) bool { return v.Name == u.Name })
		for k, p := range u.Dropins {
			from := "$.systemd.units.%d.dropins.%d"
			at := lastIndex(cfg.Systemd.Units, func(v old.Unit) bool {
				return v.Name == u.Name && slices.ContainsFunc(v.Dropins, func(q old.SystemdDropin) bool {
					return q.Name == p.Name
				})
			})
			l := slices.IndexFunc(cfg.Systemd.Units[at].Dropins, func(q old.SystemdDropin) bool {
				return q.Name == p.Name
			})
			d.moves = append(d.moves, move{fmt.Sprintf(from, i, k), fmt.Sprintf(from, at, l)})
		}
		if u.Enabled == nil {
			d.moved("$.systemd.units.%d.enabled", "$.systemd.units.%d.enable", i, j)
		}
		d.moved("$.systemd.units.%d", "$.systemd.units.%d", i, j)
	}
	for i, u := range d.cfg.Passwd.Users {
		for k, key := range u.SSHAuthorizedKeys {
			from := "$.passwd.users.%d.sshAuthorizedKeys.%d"
			at := lastIndex(cfg.Passwd.Users, func(v old.PasswdUser) bool {
				return v.Name == u.Name && slices.Contains(v.SSHAuthorizedKeys, key)
			})
			d.moves = append(d.moves,
				move{fmt.Sprintf(from, i, k), fmt.Sprintf(from, at, slices.Index(cfg.Passwd.Users[at].SSHAuthorizedKeys,
					key))})
		}
		d.moved("$.passwd.users.%d", "$.passwd.users.%d", i, lastIndex(cfg.Passwd.Users, func(v old.PasswdUser) bool {
			return v.Name == u.Name
		}))
	}
	d.moves = append(d.moves, move{"$.ignition.config.merge", "$.ignition.config.append"})
}

func (d *deduped) moved(to, from string, i, j int) {
	d.moves = append(d.moves, move{fmt.Sprintf(to, i), fmt.Sprintf(from, j)})
}

func lastIndex[T any](list []T, is func(T) bool) int {
	for i := len(list) - 1; i >= 0; i-- {
		if is(list[i]) {
			return i
		}
	}
	return -1
}
