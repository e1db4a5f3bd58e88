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

// Item is one thing that is not as the config in force has it.
type Item struct {
	// Name is a path, a unit whose enablement differs, or user/NAME, group/NAME, os/image, os/kernelArguments.
	Name string
	// Unit is the unit that a path or an enablement belongs to, or "".
	Unit string
	// Kind of what differs first.
	Kind v1alpha1.DriftKind
	// Unsafe is why the daemon does not open the path, or "".
	Unsafe string
	// Step would put it right: Before is what is there, After what the config wants.
	Step plan.Step
}

// osNames are the parts of the OS that are looked after. Packages are not: people add some by hand, and the kernel's are
// among them; the next update puts them right.
var osNames = map[host.Verb]string{host.SetImage: "os/image", host.SetKargs: "os/kernelArguments"}

// Items lists what an update from the machine as it is to its own config would put right, in the order of names. Observed
// must cover plan.ScopeOf(from). What already is as the next config wants it has not drifted: it was put right ahead of
// time; next is from where no other config is desired.
func Items(observed host.State, from, next plan.Wanted) (items []Item) {
	for _, s := range plan.Diff(observed, plan.Target(observed, from, from), plan.Ask{}).Steps {
		if it, ok := itemOf(s, observed, from, next); ok && !slices.ContainsFunc(items, func(o Item) bool { return o.Name == it.Name }) {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.Name, b.Name) })
	return items
}

// itemOf tells what a step puts right of what the config itself names; the daemon's bookkeeping and parents that nobody
// named follow from that.
func itemOf(s plan.Step, observed host.State, from, next plan.Wanted) (Item, bool) {
	switch {
	case s.IsPath():
		_, ours := from.Paths[s.Target]
		shall, named := next.Paths[s.Target]
		return Item{Name: s.Target, Unsafe: observed.Unsafe[s.Target], Unit: unitOf(s.Target), Kind: kindOf(s.Before.Entry, s.After.Entry), Step: s}, ours && (!named || s.Before.Entry != shall)
	case s.Verb == host.Enable || s.Verb == host.Disable:
		// A unit whose links change because its file does is disabled and enabled: that is its file's drift.
		on := from.Units[s.Target].Enabled
		return Item{Name: s.Target, Unit: s.Target, Kind: v1alpha1.DriftEnablement, Step: s}, on != nil && *on == (s.Verb == host.Enable) && *on != observed.Units[s.Target].Enabled
	case s.Verb == host.SetUser || s.Verb == host.DropUser:
		return Item{Name: "user/" + s.Target, Kind: v1alpha1.DriftAccount, Step: s}, true
	case s.Verb == host.SetGroup || s.Verb == host.DropGroup:
		return Item{Name: "group/" + s.Target, Kind: v1alpha1.DriftAccount, Step: s}, true
	}
	name, isOS := osNames[s.Verb]
	return Item{Name: name, Kind: v1alpha1.DriftOS, Step: s}, isOS
}

// kindOf names what of a path differs first.
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

// unitOf is the unit whose file, mask or drop-in a path is, or "".
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

// isOS tells parts that only a reboot changes.
func (it Item) isOS() bool { return it.Kind == v1alpha1.DriftOS }

// isPath tells items that are about a path.
func (it Item) isPath() bool { return path.IsAbs(it.Name) }
