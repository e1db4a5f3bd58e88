package drift

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Facts are the input of Decide.
type Facts struct {
	// Config is the config in force.
	Config plan.Config
	// Wanted is the state that the config requires of this machine.
	Wanted plan.Desired
	// Observed is the state of the machine in plan.ScopeOf(Wanted).
	Observed host.State
	// Items are the differences.
	Items []Item
	// Files has the paths of Items.
	Files map[string]Observed
	// Rules are the disruption policy.
	Rules disruption.Policy
	// Policy is the drift policy of the pool.
	Policy Policy
	// Memory is the memory of the previous scan.
	Memory Memory
}

// Observed has further facts about a path that differs.
type Observed struct {
	// Modified is when the path was last modified; zero if unknown.
	Modified time.Time
	// Contents of a file.
	Contents []byte
	// Unread is true if the contents could not be read. Unread contents count as secret.
	Unread bool
}

// Result is the decision about one item.
type Result struct {
	Item
	// Action is the action of the rule, or Degrade for a repair that cannot be done.
	Action v1alpha1.DriftAction
	// Why is the reason if Action is not the action of the rule.
	Why string
	// Since is when the item began to differ.
	Since time.Time
	// Modified is when the path was last modified; zero if that is unknown.
	Modified time.Time
	// Secret is true if the contents are secret. In this case, the report has no digest of them, and no line is shown.
	Secret bool
}

// Decision is the result of a scan.
type Decision struct {
	// Results in the order of the items.
	Results []Result
	// Memory is stored durably before the repairs.
	Memory Memory
	// Repair is the plan of all repairs; empty for none.
	Repair plan.Plan
	// Contents has the contents that the plan writes, by digest.
	Contents map[host.Digest][]byte
}

// Decide decides about each item by the first matching rule of the policy, and plans the repairs.
func Decide(f Facts, now time.Time) Decision {
	d := Decision{Memory: f.Memory.update(f.Items, now)}
	if len(f.Items) == 0 {
		return d
	}
	want := plan.Target(f.Observed, f.Wanted, f.Wanted)
	maps.Copy(want.Contents, f.Wanted.Contents)
	for _, it := range f.Items {
		v := Result{Item: it, Since: d.Memory.Things[it.Name].Since, Modified: f.Files[it.Name].Modified}
		v.Secret = it.isPath() && (f.Files[it.Name].Unread || IsSecret(it, f.Config.Secrets))
		rule := f.Policy.rule(it)
		if v.Action = rule.Action; v.Action == v1alpha1.DriftRepair && it.Obstacle.Why != "" {
			v.Action = v1alpha1.DriftDegrade // No update repairs it either; the text says what a user has to do.
		}
		if v.Action == v1alpha1.DriftRepair {
			thing := d.Memory.Things[it.Name]
			if v.Why = f.whyNotRepaired(it); v.Why == "" && thing.Conflict == "" {
				thing = thing.useRepair(rule.Limit, now)
				d.Memory.Things[it.Name] = thing
			}
			if v.Why == "" {
				v.Why = thing.Conflict
			}
			if v.Why != "" {
				v.Action = v1alpha1.DriftDegrade
			}
		}
		d.Results = append(d.Results, v)
	}
	if repairs := d.itemsWith(v1alpha1.DriftRepair); len(repairs) > 0 {
		d.Repair, d.Contents = f.repair(repairs, want)
	}
	return d
}

// itemsWith returns the items with an action.
func (d Decision) itemsWith(action v1alpha1.DriftAction) (items []Item) {
	for _, v := range d.Results {
		if v.Action == action {
			items = append(items, v.Item)
		}
	}
	return items
}

// whyNotRepaired returns why a user has to repair an item; "" if the daemon can repair it.
func (f Facts) whyNotRepaired(it Item) string {
	switch {
	case it.isOS():
		return "only a reboot repairs it"
	case it.Unsafe != "":
		return "the daemon does not open an unsafe path"
	}
	cost := f.costOf([]Item{it})
	if !cost.Drain {
		return ""
	}
	for _, c := range cost.Items {
		return fmt.Sprintf("the repair takes a %s (%s)", max(cost.Disruption, disruption.Drain), c.Why)
	}
	return fmt.Sprintf("the repair takes a %s", max(cost.Disruption, disruption.Drain))
}

// WithoutTolerated removes the steps from an update's plan that only undo drift with the action Report or Ignore. A
// step stays if the two configs differ in its item.
func (d Decision) WithoutTolerated(p plan.Plan, from, next plan.Desired) plan.Plan {
	stays := map[string]bool{}
	for _, it := range slices.Concat(d.itemsWith(v1alpha1.DriftReport), d.itemsWith(v1alpha1.DriftIgnore)) {
		stays[cmp.Or(it.Step.Target, it.Name)] = wantSame(it, from, next)
	}
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool {
		switch {
		case s.IsPath(), s.Verb == host.Enable, s.Verb == host.Disable:
			return stays[s.Target]
		}
		name, isOS := osNames[s.Verb]
		return isOS && stays[name]
	})
	return p
}

// wantSame reports whether two configs require the same state of an item.
func wantSame(it Item, from, next plan.Desired) bool {
	switch {
	case it.isPath():
		at := it.Step.Target
		now, named := next.Paths[at]
		return named && now == from.Paths[at] && string(from.Appends[at]) == string(next.Appends[at])
	case it.Kind == v1alpha1.DriftEnablement:
		was, is := from.Units[it.Name].Enabled, next.Units[it.Name].Enabled
		return was != nil && is != nil && *was == *is
	}
	switch it.Step.Verb {
	case host.SetImage:
		return from.OS.Image == next.OS.Image
	case host.SetKargs:
		return from.OS.Kargs == next.OS.Kargs
	}
	return false
}
