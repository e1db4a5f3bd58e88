package drift

import (
	"path"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// repair plans the repair of items. repair also plans changes that the items need: missing parent directories, the
// links of a unit whose file is written, the home directory of a restored user.
func (f Facts) repair(items []Item, want host.State) (plan.Plan, map[host.Digest][]byte) {
	to := f.Observed.Clone()
	for _, it := range items {
		switch s := it.Step; {
		case s.IsPath():
			to.Paths[s.Target] = want.Paths[s.Target]
			f.addParents(to, want, s.Target)
			if it.Unit != "" {
				f.addEnablement(to, want, it.Unit)
			}
		case s.Verb == host.Enable || s.Verb == host.Disable:
			f.addEnablement(to, want, it.Unit)
		case strings.HasPrefix(it.Name, "user/"):
			to.Users[s.Target] = want.Users[s.Target]
			f.addHome(to, want, s.After.User.Home)
		case strings.HasPrefix(it.Name, "group/"):
			to.Groups[s.Target] = want.Groups[s.Target]
		}
	}
	ask := plan.DiffOptions{From: f.Config.Name, To: f.Config.Name, Decision: f.costOf(items)}
	ask.MergeKeys = plan.ChangedKeys(f.Observed, to, f.Wanted)
	return plan.Diff(f.Observed, to, ask), want.Contents
}

// addParents adds the missing directories above a path.
func (f Facts) addParents(to, want host.State, p string) {
	if want.Paths[p].Kind == host.Absent {
		return
	}
	for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if is := to.Paths[dir].Kind; is == host.Absent && want.Paths[dir].Kind == host.Dir {
			to.Paths[dir] = want.Paths[dir]
		}
	}
}

// addEnablement adds the enablement of a unit, and of the units of its Also= that the config does not name.
func (f Facts) addEnablement(to, want host.State, unit string) {
	if _, known := want.Units[unit]; !known {
		return
	}
	todo := []string{unit}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if to.Units[name] == want.Units[name] {
			continue
		}
		to.Units[name] = want.Units[name]
		for _, also := range slices.Concat(host.AlsoOf(want.Units[name].Install),
			host.AlsoOf(f.Observed.Units[name].Install)) {
			if _, own := f.Wanted.Units[also]; !own {
				todo = append(todo, also)
			}
		}
	}
}

// addHome adds the content of a new home directory, if the user's home directory does not exist.
func (f Facts) addHome(to, want host.State, home string) {
	if home = f.Wanted.At(home); home == "" || f.Observed.Paths[home].Kind != host.Absent {
		return
	}
	for p, e := range want.Paths {
		if _, named := f.Wanted.Paths[p]; !named && (p == home || strings.HasPrefix(p, home+"/")) {
			to.Paths[p] = e
		}
	}
}

// costOf returns the disruption of a repair: the disruption of an update from a config without the items to the config
// in force.
func (f Facts) costOf(items []Item) disruption.Decision {
	without := f.Config.Config
	known := false
	for _, it := range items {
		var found bool
		without, found = withoutItem(without, it)
		known = known || found
	}
	d := disruption.Decide(without, f.Config.Config, f.Rules)
	if !known { // No part of the config has the items, so no rule of the disruption policy applies.
		d = d.Rebooting()
	}
	return d
}

// withoutItem returns a config without the part that an item comes from. If a path is not a file, directory, link or
// unit of the config, it is a file with the SSH keys of a user.
func withoutItem(c machineconfig.Config, it Item) (machineconfig.Config, bool) {
	before := c
	s, u, accounts := &c.Ignition.Storage, &c.Ignition.Systemd, &c.Ignition.Passwd
	group, isGroup := strings.CutPrefix(it.Name, "group/")
	user, isUser := strings.CutPrefix(it.Name, "user/")
	switch {
	case isGroup:
		accounts.Groups = dropped(accounts.Groups, func(g ign.PasswdGroup) bool { return g.Name == group })
		if len(accounts.Groups) < len(before.Ignition.Passwd.Groups) {
			return c, true
		}
		// The group is the user's own group.
		accounts.Users = dropped(accounts.Users, func(p ign.PasswdUser) bool { return p.Name == group })
		return c, len(accounts.Users) < len(before.Ignition.Passwd.Users)
	case isUser:
		accounts.Users = dropped(accounts.Users, func(p ign.PasswdUser) bool { return p.Name == user })
		return c, len(accounts.Users) < len(before.Ignition.Passwd.Users)
	}
	s.Files = dropped(s.Files, func(n ign.File) bool { return path.Clean(n.Path) == it.Name })
	s.Directories = dropped(s.Directories, func(n ign.Directory) bool { return path.Clean(n.Path) == it.Name })
	s.Links = dropped(s.Links, func(n ign.Link) bool { return path.Clean(n.Path) == it.Name })
	if it.Unit != "" {
		u.Units = dropped(u.Units, func(n ign.Unit) bool { return n.Name == it.Unit })
	}
	was := before.Ignition
	if len(s.Files) < len(was.Storage.Files) || len(s.Directories) < len(was.Storage.Directories) ||
		len(s.Links) < len(was.Storage.Links) || len(u.Units) < len(was.Systemd.Units) {
		return c, true
	}
	accounts.Users = dropped(accounts.Users, func(p ign.PasswdUser) bool {
		return it.isPath() && len(p.SSHAuthorizedKeys) > 0
	})
	return c, len(accounts.Users) < len(was.Passwd.Users)
}

// dropped returns a copy of a list without the members for which drop is true.
func dropped[T any](list []T, drop func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), drop)
}
