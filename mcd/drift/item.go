package drift

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Item is one difference from the config in force.
type Item struct {
	// Name is a path, a unit (for its enablement), user/NAME, group/NAME, os/image or os/kernelArguments.
	Name string
	// Unit is the systemd unit that the path (a unit file or a drop-in) or the enablement belongs to, or "".
	Unit string
	// AliasOf is the unit of which Unit is another name on the machine, or "".
	AliasOf string
	// Kind is the first kind of difference.
	Kind v1alpha1.DriftKind
	// Unsafe is why the daemon does not open the path, or "".
	Unsafe string
	// Obstacle is what a user has to remove before the unit can be enabled; the zero value for none.
	Obstacle host.Obstacle
	// Step is the step that repairs the item. Before is the observed value, and After is the value of the config.
	Step plan.Step
}

// userPrefix and groupPrefix begin the names of accounts.
const userPrefix, groupPrefix = "user/", "group/"

// osNames are the parts of the OS that the daemon compares. The daemon does not compare packages, because users add
// some manually, and the kernel's packages are among the packages. The next update corrects packages.
var osNames = map[host.Verb]string{host.SetImage: "os/image", host.SetKargs: "os/kernelArguments"}

// Items returns the differences between a machine and its config, sorted by name. Observed must cover
// plan.ScopeOf(from). Items omits items that already have their state after the update to the config next, because a
// user changed them before the update. If there is no update, next is the same as from.
func Items(observed host.State, from, next plan.Desired) (items []Item) {
	want := plan.Target(observed, from, from)
	steps := plan.Diff(observed, want, plan.DiffOptions{}).Steps
	obstructed := obstructedUnits(observed, want, from)
	if len(steps)+len(obstructed) == 0 {
		return nil
	}
	updated := plan.Target(observed, from, next)
	for _, it := range obstructed {
		if plan.Obstructed(observed, updated, next, it.Name) == it.Obstacle {
			items = append(items, it)
		}
	}
	for _, s := range steps {
		if s.IsPath() && updated.Paths[s.Target] == s.Before.Entry {
			continue
		}
		if it, ok := itemOf(s, observed, from, next); ok && !slices.ContainsFunc(items, func(o Item) bool {
			return o.Name == it.Name
		}) {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.Name, b.Name) })
	return items
}

// obstructedUnits returns the units that the config enables, and that a user has masked, for example. No step repairs
// them.
func obstructedUnits(observed, want host.State, from plan.Desired) (items []Item) {
	for name := range from.Units {
		o := plan.Obstructed(observed, want, from, name)
		if o.Why == "" {
			continue
		}
		is := "disabled"
		if o.Why == host.UnitMasked {
			is = "masked"
		}
		items = append(items, Item{
			Name: name, Unit: name, Kind: v1alpha1.DriftEnablement, Obstacle: o,
			Step: plan.Step{
				Verb: host.Enable, Target: name, Before: host.Value{Word: is}, After: host.Value{Word: "enabled"},
			},
		})
	}
	return items
}

// itemOf returns the item that a step repairs; false for a step about a path or account that the config does not name,
// such as the daemon's own files.
func itemOf(s plan.Step, observed host.State, from, next plan.Desired) (Item, bool) {
	switch {
	case s.IsPath():
		_, ours := from.Paths[s.Target]
		ours = ours || isUnmasking(s, from)
		shall, named := next.Paths[s.Target]
		return Item{
			Name: from.Spelling(s.Target), Unsafe: observed.Unsafe[s.Target], Unit: unitOf(s.Target),
			Kind: kindOf(s.Before.Entry, s.After.Entry), Step: s,
		}, ours && (!named || s.Before.Entry != shall)
	case s.Verb == host.Enable || s.Verb == host.Disable:
		// If the file of a unit changes, the steps disable the unit and enable it again. In this case, the item is the
		// file and not the unit.
		on := from.Units[s.Target].Enabled
		return Item{
			Name: s.Target, Unit: s.Target, AliasOf: observed.Units[s.Target].AliasOf,
			Kind: v1alpha1.DriftEnablement, Step: s,
		}, on != nil && *on == (s.Verb == host.Enable) && *on != observed.Units[s.Target].Enabled
	case s.Verb == host.SetUser || s.Verb == host.DropUser:
		return Item{Name: userPrefix + s.Target, Kind: v1alpha1.DriftAccount, Step: s}, true
	case s.Verb == host.SetGroup || s.Verb == host.DropGroup:
		return Item{Name: groupPrefix + s.Target, Kind: v1alpha1.DriftAccount, Step: s}, true
	}
	name, isOS := osNames[s.Verb]
	return Item{Name: name, Kind: v1alpha1.DriftOS, Step: s}, isOS
}

// isUnmasking reports whether a step removes the mask of a unit for which the config sets mask: false.
func isUnmasking(s plan.Step, from plan.Desired) bool {
	return from.Units[unitOf(s.Target)].Unmask && s.After.Entry.Kind == host.Absent &&
		host.IsMask(s.Target, s.Before.Entry)
}

// kindOf returns the first kind of difference of a path.
func kindOf(is, shall host.Entry) v1alpha1.DriftKind {
	switch {
	case is.Kind == host.Absent:
		return v1alpha1.DriftMissing
	case is.Kind != shall.Kind:
		return v1alpha1.DriftType
	case is.Digest != shall.Digest:
		return v1alpha1.DriftContent
	case is.Target != shall.Target:
		return v1alpha1.DriftTarget
	case is.Mode != shall.Mode:
		return v1alpha1.DriftMode
	}
	return v1alpha1.DriftOwner
}

// unitOf returns the unit of a unit file, mask or drop-in, or "".
func unitOf(p string) string {
	rest, ok := strings.CutPrefix(p, host.UnitDir+"/")
	if !ok {
		return ""
	}
	name, inside, isDir := strings.Cut(rest, "/")
	switch {
	case !isDir:
		return name
	case strings.Contains(inside, "/"):
		return ""
	}
	if unit, ok := strings.CutSuffix(name, ".d"); ok {
		return unit
	}
	return ""
}

// isOS reports whether only a reboot changes the item.
func (it Item) isOS() bool { return it.Kind == v1alpha1.DriftOS }

// isPath reports whether the item is a path.
func (it Item) isPath() bool { return path.IsAbs(it.Name) }
