package drift

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/policy"
)

// Facts are what a Decision follows from.
type Facts struct {
	// Config in force.
	Config plan.Named
	// Wanted is what that config asks of this machine.
	Wanted plan.Wanted
	// Observed is the machine, as far as plan.ScopeOf(Wanted) goes.
	Observed host.State
	// Items differ; see Items.
	Items []Item
	// Seen are the paths of Items.
	Seen map[string]Seen
	// Rules are what changes cost.
	Rules policy.Policy
	// Policy is the pool's.
	Policy Policy
	// Memory of the look before.
	Memory Memory
}

// Seen is what was looked at of a path that differs, besides its State.
type Seen struct {
	// Modified is when it was last modified; zero where that is not known.
	Modified time.Time
	// Contents of a file.
	Contents []byte
	// Unread: they could not be read, so that nobody knows whether they are secret.
	Unread bool
}

// Verdict is what is done about one item.
type Verdict struct {
	Item
	// Action taken: the rule's, but for repairs that cannot be done.
	Action v1alpha1.DriftAction
	// Why it is another than the rule's, or "".
	Why string
	// Since when it differs.
	Since time.Time
	// Modified is when what is there was last modified; zero where that is not known.
	Modified time.Time
	// Secret tells that the contents hold a secret: no digest of them is reported.
	Secret bool
	// Whole tells that all of the contents are secret: no line of them is shown.
	Whole bool
}

// Decision is what to do about all items.
type Decision struct {
	// Verdicts in the order of the items.
	Verdicts []Verdict
	// Memory to keep, durably, before anything is done.
	Memory Memory
	// Repair is the plan of all repairs together; it is empty where there are none.
	Repair plan.Plan
	// Contents has all that the plan writes, by digest.
	Contents map[host.Digest][]byte
}

// Decide judges each item by the first rule of the policy that matches, and plans the repairs.
func Decide(f Facts, now time.Time) Decision {
	d := Decision{Memory: f.Memory.after(f.Items, now)}
	if len(f.Items) == 0 {
		return d
	}
	want := plan.Target(f.Observed, f.Wanted, f.Wanted)
	maps.Copy(want.Contents, f.Wanted.Contents)
	for _, it := range f.Items {
		v := Verdict{Item: it, Since: d.Memory.Things[it.Name].Since, Modified: f.Seen[it.Name].Modified}
		v.Whole = it.isPath() && (f.Seen[it.Name].Unread || isWhole(it, f.Config.Secrets))
		v.Secret = v.Whole || it.isPath() && IsSecret(it, f.Config.Secrets, want.Contents[it.Step.After.Entry.Digest], f.Seen[it.Name].Contents)
		rule := f.Policy.rule(it)
		if v.Action = rule.Action; v.Action == v1alpha1.DriftRepair {
			thing := d.Memory.Things[it.Name]
			if v.Why = f.cannot(it); v.Why == "" && thing.Fight == "" {
				thing = thing.spend(rule.Limit, now)
				d.Memory.Things[it.Name] = thing
			}
			if v.Why == "" {
				v.Why = thing.Fight
			}
			if v.Why != "" {
				v.Action = v1alpha1.DriftDegrade
			}
		}
		d.Verdicts = append(d.Verdicts, v)
	}
	if repairs := d.of(v1alpha1.DriftRepair); len(repairs) > 0 {
		d.Repair, d.Contents = f.repair(repairs, want)
	}
	return d
}

// of are the items whose verdict is an action.
func (d Decision) of(action v1alpha1.DriftAction) (items []Item) {
	for _, v := range d.Verdicts {
		if v.Action == action {
			items = append(items, v.Item)
		}
	}
	return items
}

// cannot says why an item is not put right without a person, or "".
func (f Facts) cannot(it Item) string {
	switch {
	case it.isOS():
		return "only a reboot puts it right"
	case it.Unsafe != "":
		return "the daemon does not open an unsafe path"
	}
	cost := f.cost([]Item{it})
	if !cost.Drain {
		return ""
	}
	for _, c := range cost.Items {
		return fmt.Sprintf("putting it right takes a %s (%s)", max(cost.Disruption, policy.Drain), c.Why)
	}
	return fmt.Sprintf("putting it right takes a %s", max(cost.Disruption, policy.Drain))
}

// Leave takes those steps out of an update's plan that would only undo what may stay: what Report and Ignore are about, as
// far as neither config wants it to be other than before.
func (d Decision) Leave(p plan.Plan, from, next plan.Wanted) plan.Plan {
	stays := map[string]bool{}
	for _, it := range slices.Concat(d.of(v1alpha1.DriftReport), d.of(v1alpha1.DriftIgnore)) {
		stays[it.Name] = sameWish(it, from, next)
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

// sameWish tells whether two configs say the same about an item.
func sameWish(it Item, from, next plan.Wanted) bool {
	switch {
	case it.isPath():
		now, named := next.Paths[it.Name]
		return named && now == from.Paths[it.Name] && string(from.Appends[it.Name]) == string(next.Appends[it.Name])
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
