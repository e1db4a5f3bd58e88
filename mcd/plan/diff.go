package plan

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Step is one change as data. The journal stores the same type, host.Step.
type Step = host.Step

// Plan is the steps of an update, in the order that the package documents.
type Plan struct {
	// From and To are the names of the configs.
	From, To string
	// Steps in order; empty if nothing differs.
	Steps []Step
	// Install has the [Install] sections that the units of Enable steps have then, by unit.
	Install map[string]string
	// Masks are the files of units that the new config masks, by path.
	Masks map[string]bool
	// Drain is true if the node is drained before the first step.
	Drain bool
	// Disruption is the level of disruption for the node.
	Disruption disruption.Disruption
	// Refusals are the reasons not to apply the steps; empty for none.
	Refusals []disruption.Refusal
	// Notes are settings of the config that have no effect on this machine, and why, as text for people.
	Notes []string
	// Unread are SSH keys of the config that sshd does not read on this machine, and why, as text for people.
	Unread []string
}

// DiffOptions are the options of Diff.
type DiffOptions struct {
	// From and To are the names of the configs.
	From, To string
	// Decision is the decision on the disruption, from disruption.Decide.
	Decision disruption.Decision
	// Problems are refusals that the caller already knows.
	Problems []disruption.Refusal
	// MergeKeys are the users whose files with SSH keys change, and must be merged by a program.
	MergeKeys []string
	// Linked are units that stay enabled, and of which a link goes that enables them.
	Linked map[string]bool
	// Gone are units of which no file is left after the update.
	Gone map[string]bool
	// Last are paths that are written or removed after all others.
	Last map[string]bool
}

// Diff returns the steps from one state to another. A change that the machine does not support becomes a refusal. If
// there is no decision, the Diff of a state with itself is empty.
func Diff(from, to host.State, ask DiffOptions) Plan {
	p := Plan{
		From: ask.From, To: ask.To, Drain: ask.Decision.Drain, Disruption: ask.Decision.Disruption,
		Refusals: slices.Clone(ask.Problems),
	}
	stages, refusals := systemSteps(from, to)
	p.Refusals = append(p.Refusals, refusals...)
	disables, enables := unitSteps(from, to, ask.Linked)
	for _, s := range enables {
		if p.Install == nil {
			p.Install = map[string]string{}
		}
		p.Install[s.Target] = to.Units[s.Target].Install
	}
	paths := changedPaths(from.Paths, to.Paths)
	paths.addLinksOf(disables)
	last := paths.without(ask.Last)
	accounts := accountSteps(from, to)
	actions, reboot := actionSteps(ask.Decision.Actions, ask.Gone)
	most := len(stages) + len(disables) + len(paths.all) + len(last.all) + len(accounts) + len(enables) + len(actions) +
		len(reboot) + len(ask.MergeKeys)
	p.Steps = slices.Grow(p.Steps, most) // The slice is allocated once, because steps are large.
	p.Steps = append(append(p.Steps, stages...), disables...)
	p.Steps = append(paths.addRemovals(p.Steps), accounts...)
	p.Steps = last.addRemovals(last.addWrites(paths.addWrites(p.Steps)))
	p.Steps = append(p.Steps, enables...)
	for _, user := range ask.MergeKeys {
		p.Steps = append(p.Steps, Step{Verb: host.MergeKeys, Target: user})
	}
	p.Steps = append(p.Steps, actions...)
	p.Steps = append(paths.addRecord(p.Steps), reboot...)
	return p
}

// systemSteps stages each part of the OS that differs.
func systemSteps(from, to host.State) (steps []Step, refusals []disruption.Refusal) {
	for _, part := range []struct {
		verb          host.Verb
		field         string
		before, after string
		can           bool
	}{
		{host.SetImage, "osImageURL", from.OS.Image, to.OS.Image, from.Support.Image},
		{host.SetKernelType, "kernelType", from.OS.KernelType, to.OS.KernelType, from.Support.KernelType},
		{host.SetKargs, "kernelArguments", from.OS.Kargs, to.OS.Kargs, from.Support.Kargs},
		{host.SetExtensions, "extensions", from.OS.Extensions, to.OS.Extensions, from.Support.Extensions},
	} {
		if part.before == part.after {
			continue
		}
		if !part.can {
			refusals = append(refusals, disruption.OnNode(disruption.CheckSystem, part.field,
				"this node cannot change it: "+
					from.Support.Why+"; take it out of the node's configs, or install the node anew"))
			continue
		}
		step := Step{Verb: part.verb, Before: host.Value{Word: part.before}, After: host.Value{Word: part.after}}
		if part.verb == host.SetKargs && from.Support.PlainKargs {
			added, _ := host.AddedArgs(from.Support.OwnKargs, step)
			for _, a := range distribution.OddArguments(nil, added) {
				refusals = append(refusals, disruption.OnNode(disruption.CheckSystem, "kernelArguments "+a,
					"this node refuses it, "+distribution.PlainOnly+"; write it without other characters, or take it "+
						"out of the node's configs"))
			}
		}
		steps = append(steps, step)
	}
	return steps, refusals
}

// unitSteps disables units that are not enabled any more, whose [Install] section changes or whose links go, and
// enables units. A unit with an obstacle gets no step that enables it, because the step would fail.
func unitSteps(from, to host.State, linked map[string]bool) (disables, enables []Step) {
	names := map[string]bool{}
	for _, s := range []host.State{from, to} {
		for name := range s.Units {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := from.Units[name], to.Units[name]
		can := is.Obstacle.Why == ""
		changes := was.Install != is.Install || linked[name]
		again := can && was.Enabled && is.Enabled && is.Install != "" && changes
		if was.Enabled && !is.Enabled || again {
			disables = append(disables, Step{Verb: host.Disable, Target: name, Before: enabled, After: disabled})
		}
		if can && is.Enabled && !was.Enabled || again {
			enables = append(enables, Step{Verb: host.Enable, Target: name, Before: disabled, After: enabled})
		}
	}
	return disables, enables
}

var (
	enabled  = host.Value{Word: "enabled"}
	disabled = host.Value{Word: "disabled"}
)

// pathChanges are the paths that differ between two states, sorted.
type pathChanges struct {
	from, to map[string]host.Entry
	all      []string
}

func changedPaths(from, to map[string]host.Entry) pathChanges {
	c := pathChanges{from: from, to: to}
	both := 0
	for p, is := range to {
		was, known := from[p]
		if known {
			both++
		}
		// The link must be created again, because its target will be another file.
		again := is.Kind == host.Hard && from[is.Target] != to[is.Target]
		if was != is || again {
			c.all = append(c.all, p)
		}
	}
	if both < len(from) {
		for p, was := range from {
			if _, kept := to[p]; !kept && was != (host.Entry{}) {
				c.all = append(c.all, p)
			}
		}
	}
	slices.Sort(c.all)
	return c
}

// addLinksOf adds the links that stay, of units that steps disable: such a step removes every link to the unit, also
// another name of it, and the links of a template's default instance.
func (c *pathChanges) addLinksOf(disables []Step) {
	if len(disables) == 0 {
		return
	}
	disabled := map[string]bool{}
	for _, s := range disables {
		disabled[s.Target] = true
	}
	for p, is := range c.to {
		if is.Kind != host.Link || is != c.from[p] ||
			path.Dir(p) != host.UnitDir && len(disruption.UnitsEnabledBy(p, is.Target)) == 0 {
			continue
		}
		names := append(host.FileNames(path.Base(p)), host.FileNames(path.Base(is.Target))...)
		if slices.ContainsFunc(names, func(name string) bool { return disabled[name] }) {
			c.all = append(c.all, p)
		}
	}
	slices.Sort(c.all)
}

// without removes paths from the changes, and returns the changes of these paths.
func (c *pathChanges) without(paths map[string]bool) pathChanges {
	others := pathChanges{from: c.from, to: c.to}
	c.all = slices.DeleteFunc(c.all, func(p string) bool {
		if paths[p] {
			others.all = append(others.all, p)
		}
		return paths[p]
	})
	return others
}

// addRemovals adds the steps that remove paths: entries of a directory before the directory.
func (c pathChanges) addRemovals(steps []Step) []Step {
	for _, p := range slices.Backward(c.all) {
		if p != host.RecordPath && c.to[p].Kind == host.Absent {
			steps = append(steps, c.step(p))
		}
	}
	return steps
}

// addWrites adds the steps that write paths: a directory before its children, hard links last.
func (c pathChanges) addWrites(steps []Step) []Step {
	var hard []string
	for _, p := range c.all {
		switch kind := c.to[p].Kind; {
		case kind == host.Hard:
			hard = append(hard, p)
		case p != host.RecordPath && kind != host.Absent:
			steps = append(steps, c.step(p))
		}
	}
	for _, p := range hard {
		steps = append(steps, c.step(p))
	}
	return steps
}

// addRecord adds the step of the record if it changes.
func (c pathChanges) addRecord(steps []Step) []Step {
	if _, changes := slices.BinarySearch(c.all, host.RecordPath); changes && c.to[host.RecordPath].Kind != host.Hard {
		steps = append(steps, c.step(host.RecordPath))
	}
	return steps
}

func (c pathChanges) step(p string) Step { return pathStep(p, c.from[p], c.to[p]) }

// accountSteps returns the steps that change users and groups. Users and unused groups are removed first, so that their
// numbers are free. Groups are created before their users. Groups that a remaining user leaves are removed last.
func accountSteps(from, to host.State) []Step {
	var goneUsers, goneGroups, groups, users, lastGroups []Step
	for _, name := range union(from.Users, to.Users) {
		switch was, is := from.Users[name], to.Users[name]; {
		case was == is:
		case is.There:
			users = append(users, userStep(name, was, is))
		default:
			goneUsers = append(goneUsers, userStep(name, was, is))
		}
	}
	for _, name := range union(from.Groups, to.Groups) {
		switch was, is := from.Groups[name], to.Groups[name]; {
		case was == is:
		case is.There:
			groups = append(groups, groupStep(name, was, is))
		case isLeftByUser(name, was.GID, from.Users, to.Users):
			lastGroups = append(lastGroups, groupStep(name, was, is))
		default:
			goneGroups = append(goneGroups, groupStep(name, was, is))
		}
	}
	return slices.Concat(goneUsers, goneGroups, groups, users, lastGroups)
}

// isLeftByUser reports whether a user who is not removed leaves a group. Such a group must exist while the user
// changes, and during a rollback.
func isLeftByUser(group string, gid int, from, to map[string]host.User) bool {
	for name, was := range from {
		in := was.GID == gid || slices.Contains(host.Names(was.Groups), group)
		if was.There && to[name].There && was != to[name] && in {
			return true
		}
	}
	return false
}

func union[V any](a, b map[string]V) []string {
	names := maps.Clone(a)
	if names == nil {
		names = map[string]V{}
	}
	maps.Copy(names, b)
	return slices.Sorted(maps.Keys(names))
}

func userStep(name string, before, after host.User) Step {
	s := Step{Verb: host.SetUser, Target: name, Before: host.Value{User: before}, After: host.Value{User: after}}
	if !after.There {
		s.Verb = host.DropUser
	}
	return s
}

func groupStep(name string, before, after host.Group) Step {
	s := Step{Verb: host.SetGroup, Target: name, Before: host.Value{Group: before}, After: host.Value{Group: after}}
	if !after.There {
		s.Verb = host.DropGroup
	}
	return s
}

func pathStep(p string, before, after host.Entry) Step {
	s := Step{Target: p, Before: host.Value{Entry: before}, After: host.Value{Entry: after}}
	switch {
	case p == host.RecordPath:
		s.Verb = host.WriteRecord
	case after.Kind == host.Absent:
		s.Verb = host.Remove
	case after.Kind == host.Link || after.Kind == host.Hard:
		s.Verb = host.MakeLink
	case after.Kind == host.Dir:
		s.Verb = host.MakeDir
	default:
		s.Verb = host.Write
	}
	return s
}

// actionSteps returns the actions of a decision, in its order and with its repetitions. A reboot replaces all other
// actions. A unit that is gone after the update is stopped, because systemd can neither reload nor restart it.
func actionSteps(actions []disruption.Action, gone map[string]bool) (steps, reboot []Step) {
	for _, a := range actions {
		if gone[a.Service] {
			steps = append(steps, Step{Verb: host.Stop, Target: a.Service})
			continue
		}
		switch a.Type {
		case disruption.ActionReboot:
			return nil, []Step{{Verb: host.Reboot}}
		case disruption.ActionDaemonReload:
			steps = append(steps, Step{Verb: host.DaemonReload})
		case disruption.ActionReload:
			steps = append(steps, Step{Verb: host.Reload, Target: a.Service})
		case disruption.ActionRestart:
			steps = append(steps, Step{Verb: host.Restart, Target: a.Service})
		}
	}
	return steps, nil
}

// Reboots reports whether the plan ends with a reboot.
func (p Plan) Reboots() bool { return len(p.Steps) > 0 && p.Steps[len(p.Steps)-1].Verb == host.Reboot }

// Stages reports whether the plan stages a part of the OS, which runs after a reboot.
func (p Plan) Stages() bool {
	return slices.ContainsFunc(p.Steps, Step.Stages)
}

// StagesTree reports whether the plan stages another tree of the OS. Kernel arguments alone keep the tree.
func (p Plan) StagesTree() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Stages() && s.Verb != host.SetKargs })
}

// Empty reports whether the plan has no steps and no refusals.
func (p Plan) Empty() bool { return len(p.Steps) == 0 && len(p.Refusals) == 0 }

// Blocked returns the plan with a refusal for each blocker that counts.
func (p Plan) Blocked(found []host.Blocker) Plan {
	p.Refusals = slices.Clone(p.Refusals)
	for _, b := range p.Counting(found) {
		p.Refusals = append(p.Refusals, disruption.OnNode(disruption.CheckDisk, b.Path, b.String()))
	}
	return p
}

// Counting returns the blockers that count for the plan. A file system in memory counts if the update reboots, and only
// in a place that is empty after each boot on every system: a machine that runs from memory as a whole keeps nothing.
// A mask that the new config has is told as the config's.
func (p Plan) Counting(found []host.Blocker) []host.Blocker {
	found = slices.Clone(found)
	for i, b := range found {
		if b.Kind == host.MaskedUnit && p.Masks[b.At] {
			found[i].At, found[i].Shipped = "", false
		}
	}
	return slices.DeleteFunc(found, func(b host.Blocker) bool {
		return b.Kind == host.InMemory && !(p.Reboots() && nodepath.PlaceOf(b.Path, "").Fate == nodepath.LostAtBoot)
	})
}

// String returns the plan as text:
//
//	from rendered-worker-1
//	to rendered-worker-2
//	drain
//	write /etc/chrony.conf 0644 (was 0600)
//	restart chronyd.service
//	record /etc/machine-config-daemon/currentconfig
//	disruption: restart
//
// String prints the notes behind the steps. If the plan has refusals, String prints them instead of both.
func (p Plan) String() string {
	var b strings.Builder
	b.WriteString("from " + orNothing(p.From) + "\nto " + orNothing(p.To) + "\n")
	for _, r := range p.Refusals {
		b.WriteString("refuse " + r.Field + ": " + r.Why + "\n")
	}
	if len(p.Refusals) > 0 {
		return b.String()
	}
	if p.Drain {
		b.WriteString("drain\n")
	}
	for _, s := range p.Steps {
		b.WriteString(s.String() + "\n")
	}
	for _, n := range slices.Concat(p.Notes, p.Unread) {
		b.WriteString("note: " + n + "\n")
	}
	b.WriteString("disruption: " + p.Disruption.String() + "\n")
	return b.String()
}

func orNothing(name string) string {
	if name == "" {
		return "nothing"
	}
	return name
}

// Inverse returns the step that undoes a step: Before and After change places. An action is its own inverse, because a
// rollback reloads or restarts the service again. Inverse(Inverse(s)) == s.
func Inverse(s Step) Step {
	s.Before, s.After = s.After, s.Before
	switch s.Verb {
	case host.Enable:
		s.Verb = host.Disable
	case host.Disable:
		s.Verb = host.Enable
	case host.Stop:
		s.Verb = host.Restart // The unit has its file again.
	case host.SetUser, host.DropUser:
		s.Verb = userStep(s.Target, s.Before.User, s.After.User).Verb
	case host.SetGroup, host.DropGroup:
		s.Verb = groupStep(s.Target, s.Before.Group, s.After.Group).Verb
	default:
		if s.IsPath() {
			s.Verb = pathStep(s.Target, s.Before.Entry, s.After.Entry).Verb
		}
	}
	return s
}

// Inverse returns the plan of the rollback. Changes are undone last first. Actions keep their order and follow the
// changes. The steps of the record and of the reboot are last.
func (p Plan) Inverse() Plan {
	var changes, hard, actions, record, reboot []Step
	for _, s := range p.Steps {
		switch {
		case s.Verb == host.Reboot:
			reboot = append(reboot, s)
		case s.IsAction():
			actions = append(actions, Inverse(s))
		case s.Verb == host.WriteRecord:
			record = append(record, Inverse(s))
		case s.Before.Entry.Kind == host.Hard: // The files to which hard links lead must exist again before the links.
			hard = append(hard, Inverse(s))
		default:
			changes = append(changes, Inverse(s))
		}
	}
	slices.Reverse(changes)
	slices.Reverse(hard)
	p.From, p.To = p.To, p.From
	p.Steps = slices.Concat(changes, hard, actions, record, reboot)
	return p
}
