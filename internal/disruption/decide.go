package disruption

import (
	"cmp"
	"path"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"
)

// Decide returns what a node does to change from one config to another under a policy. Whether it can change at all is
// for Refuse. Without differences, or with some for new nodes alone, the only action is None.
func Decide(from, to machineconfig.Config, p Policy) Decision {
	from, to = machineconfig.Flattened(from), machineconfig.Flattened(to)
	var d Decision
	var all []Action
	changes := Compare(from, to)
	other := respelled(changes, from, to)
	for _, c := range changes {
		cost := costOf(c, p)
		if isForNewNodes(c, from, to) {
			cost = Costed{Change: c, Actions: none(), Why: "only new nodes get it", Effect: EffectNewNodes}
		}
		if spelled, ok := other[c]; ok {
			cost = Costed{Change: c, Actions: none(), Why: "the same place as " + spelled, Effect: EffectSamePlace}
		}
		drain := false
		if slices.ContainsFunc(cost.Actions, func(a Action) bool { return a.Type == ActionSpecial }) {
			cost, drain = special(cost, from, to)
		}
		all = append(all, cost.Actions...)
		if d.Drain = d.Drain || drain; drain {
			cost.Actions = append([]Action{{Type: ActionDrain}}, cost.Actions...)
		}
		cost.Effect = cmp.Or(effectOf(c, from, to), stopped(cost, from, to), cost.Effect)
		d.Items = append(d.Items, cost)
	}
	d.Actions = combine(all)
	for _, a := range d.Actions {
		d.Drain = d.Drain || a.Type == ActionReboot || a.Type == ActionDrain
		d.Disruption = max(d.Disruption, a.Disruption())
	}
	if d.Drain {
		d.Disruption = max(d.Disruption, Drain)
	}
	return d
}

// isForNewNodes reports whether no part of a change reaches running nodes.
func isForNewNodes(c Change, from, to machineconfig.Config) bool {
	a, b := from.Ignition, to.Ignition
	switch c.Kind {
	case KindStorage, KindFirstBootKargs, KindIgnition:
		return true
	case KindUnit:
		return !slices.Contains(liveUnits(a, b), c)
	case KindUser:
		return c.Verb == Changed && sameLiveUser(byKey(a.Passwd.Users)[c.Name], byKey(b.Passwd.Users)[c.Name])
	case KindGroup:
		return c.Verb == Changed && sameLiveGroup(byKey(a.Passwd.Groups)[c.Name], byKey(b.Passwd.Groups)[c.Name])
	}
	return false
}

// sameLiveUser compares what running nodes apply.
func sameLiveUser(a, b ign.PasswdUser) bool {
	for _, u := range []*ign.PasswdUser{&a, &b} {
		u.System, u.NoCreateHome, u.NoLogInit, u.NoUserGroup = nil, nil, nil, nil
	}
	return sameUser(a, b)
}

func sameLiveGroup(a, b ign.PasswdGroup) bool {
	a.System, b.System = nil, nil
	return sameGroup(a, b)
}

// Rebooting returns the decision with a drain and a reboot instead of its actions, for nodes that must reboot whatever
// the configs say, for example after drift or with the force file.
func (d Decision) Rebooting() Decision {
	d.Actions, d.Drain, d.Disruption = reboot(), true, Reboot
	return d
}

// EffectNewNodes is the effect of a change that only new nodes get.
const EffectNewNodes = "existing nodes keep what they have"

// EffectSamePlace is the effect of a path that a config spells in another way, through a link of the system.
const EffectSamePlace = "nodes keep it as it is"

// respelled returns the changes of paths that name the same place in both configs, each with its path in the other:
// /lib/x and /usr/lib/x are one file on all systems of the table. Both configs want the same there.
func respelled(changes Changes, from, to machineconfig.Config) map[Change]string {
	type place struct {
		kind ChangeKind
		at   string
	}
	removed, other := map[place]Change{}, map[Change]string{}
	for _, c := range changes {
		if c.Verb == Removed {
			removed[place{c.Kind, nodepath.Merged(c.Name)}] = c
		}
	}
	if len(removed) == 0 {
		return nil
	}
	a, b := from.Ignition.Storage, to.Ignition.Storage
	files, newFiles := byKey(a.Files), byKey(b.Files)
	dirs, newDirs := byKey(a.Directories), byKey(b.Directories)
	links, newLinks := byKey(a.Links), byKey(b.Links)
	for _, c := range changes {
		was, found := removed[place{c.Kind, nodepath.Merged(c.Name)}]
		same := false
		switch {
		case !found || c.Verb != Added:
		case c.Kind == KindFile:
			same = sameFile(files[was.Name], newFiles[c.Name])
		case c.Kind == KindDirectory:
			same = sameDirectory(dirs[was.Name], newDirs[c.Name])
		case c.Kind == KindLink:
			same = sameLink(links[was.Name], newLinks[c.Name])
		}
		if same {
			other[was], other[c] = c.Name, was.Name
		}
	}
	return other
}

// stopped returns what becomes of a service whose file leaves the config, if its rule reloads or restarts it; "" for
// other changes. Only a node knows whether its OS has a file of the service too.
func stopped(c Costed, from, to machineconfig.Config) string {
	acts := slices.ContainsFunc(c.Actions, func(a Action) bool { return a.Service == c.Name })
	if c.Kind != KindUnit || !acts || !hasFile(byKey(from.Ignition.Systemd.Units)[c.Name]) ||
		hasFile(byKey(to.Ignition.Systemd.Units)[c.Name]) {
		return ""
	}
	return "stops the service, unless the node has another file of it"
}

// hasFile reports whether a config has the file of a unit.
func hasFile(u ign.Unit) bool { return u.Contents != nil && *u.Contents != "" }

// effectOf returns what becomes of an account that leaves the config; "" for other changes.
func effectOf(c Change, from, to machineconfig.Config) string {
	if c.Name == "root" || c.Name == "core" {
		return ""
	}
	users, groups := byKey(to.Ignition.Passwd.Users), byKey(to.Ignition.Passwd.Groups)
	switch {
	case c.Kind == KindUser && c.Verb == Removed && exists(byKey(from.Ignition.Passwd.Users)[c.Name].ShouldExist):
		return "deletes the account, unless the node had it before; its home directory stays"
	case c.Kind == KindUser && c.Verb != Removed && !exists(users[c.Name].ShouldExist):
		return "deletes the account; its home directory stays"
	case c.Kind == KindGroup && c.Verb == Removed && exists(byKey(from.Ignition.Passwd.Groups)[c.Name].ShouldExist):
		return "deletes the group, unless the node had it before"
	case c.Kind == KindGroup && c.Verb != Removed && !exists(groups[c.Name].ShouldExist):
		return "deletes the group"
	}
	return ""
}

// Disruption returns how much the action disturbs a node. ActionSpecial counts as a reload: only Decide knows whether
// it needs a drain.
func (a Action) Disruption() Disruption {
	switch a.Type {
	case ActionNone:
		return None
	case ActionDaemonReload:
		return DaemonReload
	case ActionReload, ActionSpecial:
		return Reload
	case ActionRestart:
		return Restart
	case ActionDrain:
		return Drain
	}
	return Reboot
}

// combine joins the actions of all changes: a reboot replaces all others, None goes if there are others, and the rest
// keep their order and repetitions.
func combine(all []Action) []Action {
	if slices.ContainsFunc(all, func(a Action) bool { return a.Type == ActionReboot }) {
		return reboot()
	}
	if rest := slices.DeleteFunc(slices.Clone(all), func(a Action) bool {
		return a.Type == ActionNone
	}); len(rest) > 0 {
		return rest
	}
	return none()
}

func costOf(c Change, p Policy) Costed {
	switch c.Kind {
	case KindFile, KindDirectory, KindLink:
		if r, ok := fileRule(p.Files, c); ok {
			return Costed{Change: c, Actions: r.Actions, Why: "rule " + r.Name}
		}
	case KindUnit:
		if i := slices.IndexFunc(p.Units, func(r Rule) bool { return r.Name == c.Name }); i >= 0 {
			return Costed{Change: c, Actions: p.Units[i].Actions, Why: "rule " + c.Name}
		}
	case KindUser, KindGroup:
		if len(p.SSHKey) > 0 {
			return Costed{Change: c, Actions: p.SSHKey, Why: "rule sshkey"}
		}
	case KindKargs, KindFIPS:
		return Costed{Change: c, Actions: reboot(), Why: "the kernel reads them at boot"}
	case KindKernelType, KindExtensions, KindOSImage:
		return Costed{Change: c, Actions: reboot(), Why: "the node boots the new OS"}
	}
	return Costed{Change: c, Actions: reboot(), Why: "no rule covers it"}
}

// fileRule finds the rule with the longest path that is the changed path or a parent directory. With a trailing slash,
// it covers a directory and everything below it, but no file or link with that name. The rule / covers nothing.
func fileRule(rules []Rule, c Change) (best Rule, ok bool) {
	for _, r := range rules {
		dir := path.Clean(r.Name)
		covers := r.Name == c.Name || strings.HasPrefix(c.Name, dir+"/") || c.Kind == KindDirectory && dir == c.Name
		if covers && dir != "/" && len(r.Name) > len(best.Name) {
			best, ok = r, true
		}
	}
	return best, ok
}

// special resolves ActionSpecial: the container runtime reloads its registries, after a drain if the change may be
// unsafe for running pods.
func special(c Costed, from, to machineconfig.Config) (resolved Costed, drain bool) {
	reason := "it is not the file " + RegistriesFile + " or a drop-in of it"
	if c.Kind == KindFile && IsRegistriesFile(c.Name) {
		reason = UnsafeRegistriesChange(c.Name, from.Ignition.Storage.Files, to.Ignition.Storage.Files)
	}
	resolved = c
	resolved.Actions = nil
	for _, a := range c.Actions {
		if a.Type != ActionSpecial {
			resolved.Actions = append(resolved.Actions, a)
			continue
		}
		resolved.Actions = append(resolved.Actions, reload(crio)...)
	}
	if reason == "" {
		resolved.Why += ", and no image that a pod uses comes from elsewhere"
		return resolved, false
	}
	resolved.Why += ", pods move first: " + reason
	return resolved, true
}
