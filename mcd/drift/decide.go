package drift

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/textdiff"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
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
		same := wantSame(it, from, next)
		switch {
		case it.Kind == v1alpha1.DriftAccount:
			stays[it.Name] = same
		case it.AliasOf != "": // A plan has the unit under its own name.
			stays[it.AliasOf] = same
			fallthrough
		default:
			stays[cmp.Or(it.Step.Target, it.Name)] = same
		}
	}
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool {
		switch {
		case s.IsPath(), s.Verb == host.Enable, s.Verb == host.Disable:
			return stays[s.Target]
		case s.Verb == host.SetUser, s.Verb == host.DropUser:
			return stays[userPrefix+s.Target]
		case s.Verb == host.SetGroup, s.Verb == host.DropGroup:
			return stays[groupPrefix+s.Target]
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
	case it.Kind == v1alpha1.DriftAccount:
		user := func(w plan.Desired) []plan.User {
			return dropped(w.Users, func(u plan.User) bool { return userPrefix+u.Name != it.Name })
		}
		group := func(w plan.Desired) []plan.Group {
			return dropped(w.Groups, func(g plan.Group) bool { return groupPrefix+g.Name != it.Name })
		}
		return len(user(from))+len(group(from)) > 0 && reflect.DeepEqual(user(from), user(next)) &&
			reflect.DeepEqual(group(from), group(next))
	}
	switch it.Step.Verb {
	case host.SetImage:
		return from.OS.Image == next.OS.Image
	case host.SetKargs:
		return from.OS.Kargs == next.OS.Kargs
	}
	return false
}

// maxText is the largest size of each side, in bytes, for a comparison line by line.
const maxText = 64 << 10

// IsSecret reports whether even the digests of a path must not be reported: an owner marked the path as secret, its
// contents come from a secret, or one side is a file that only its owner can read.
func IsSecret(it Item, marked secretmask.Paths) bool {
	for _, e := range []host.Entry{it.Step.Before.Entry, it.Step.After.Entry} {
		if e.Kind == host.File && e.Mode&0o077 == 0 {
			return true
		}
	}
	return marked.Match(it.Name)
}

// Diff returns the difference of a path for users who may read root's files on the node: a header with the differing
// mode and owner, then a unified diff. The diff hides a file that is secret, and shows only the sizes of binary or
// large files.
func Diff(v Result, config string, expected, actual []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", v.String())
	is, shall := v.Step.Before.Entry, v.Step.After.Entry
	if is.Mode != shall.Mode {
		fmt.Fprintf(&b, "# mode: expected %04o; received %04o\n", shall.Mode, is.Mode)
	}
	if is.Owner != shall.Owner {
		fmt.Fprintf(&b, "# owner: expected %s; received %s\n", owner(shall), owner(is))
	}
	if is.Digest == shall.Digest {
		return b.String()
	}
	fmt.Fprintf(&b, "--- %s (%s)\n+++ %s (this node)\n", v.Name, config, v.Name)
	switch {
	case v.Secret:
		b.WriteString("(hidden: the contents are secret)\n")
	case !readable(expected) || !readable(actual):
		fmt.Fprintf(&b, "(not shown: %d bytes expected, %d bytes received, which are no text or too long)\n",
			len(expected), len(actual))
	default:
		b.WriteString(textdiff.Unified(expected, actual))
	}
	return b.String()
}

// readable reports whether a text can be compared line by line.
func readable(text []byte) bool {
	return len(text) <= maxText && utf8.Valid(text) && !bytes.ContainsRune(text, 0)
}

// Report returns the drift report of the Node: every item except those with the action Ignore. ok is false for an empty
// report.
func (d Decision) Report(config string) (r v1alpha1.Drift, ok bool) {
	r = v1alpha1.Drift{Config: config, Items: []v1alpha1.DriftItem{}}
	for _, v := range d.Results {
		if v.Action != v1alpha1.DriftIgnore {
			r.Items = append(r.Items, v.report())
		}
	}
	return r, len(r.Items) > 0
}

func (v Result) report() v1alpha1.DriftItem {
	it := v1alpha1.DriftItem{
		Name: v.Name, Kind: v.Kind, Action: v.Action,
		Since: metav1.NewTime(v.Since.UTC().Truncate(time.Second)), Why: v.Why, Secret: v.Secret,
	}
	if !v.isPath() {
		it.Why = strings.TrimSuffix(v.what()+"; "+v.Why, "; ")
		if v.Kind == v1alpha1.DriftEnablement {
			it.Expected, it.Actual = &v1alpha1.DriftEntry{Type: v.Step.After.Word},
				&v1alpha1.DriftEntry{Type: v.Step.Before.Word}
		}
		return it
	}
	it.Expected, it.Actual = v.side(v.Step.After.Entry), v.side(v.Step.Before.Entry)
	if !v.Modified.IsZero() {
		it.Modified = &metav1.Time{Time: v.Modified.UTC().Truncate(time.Second)}
	}
	return it
}

func (v Result) side(e host.Entry) *v1alpha1.DriftEntry {
	out := &v1alpha1.DriftEntry{Type: string(e.Kind), Target: e.Target}
	if e.Kind == host.Absent || e.Kind == host.Unsafe {
		return out
	}
	out.Owner = owner(e)
	if e.Kind != host.Link {
		out.Mode = fmt.Sprintf("%04o", e.Mode)
	}
	if !v.Secret {
		out.Digest = string(e.Digest)
	}
	return out
}

// Encode returns a report as JSON of at most v1alpha1.MaxDrift bytes. If the report is too long, Encode omits items,
// beginning with those that do not degrade the node. More is the number of omitted items.
func Encode(r v1alpha1.Drift) (string, error) {
	text, err := json.Marshal(r)
	if err != nil || len(text) <= v1alpha1.MaxDrift {
		return string(text), err
	}
	room := v1alpha1.MaxDrift - len(`{"config":"","items":[],"more":1000000}`) - len(r.Config)
	keep := map[int]bool{}
	for _, first := range []bool{true, false} {
		for i, it := range r.Items {
			one, err := json.Marshal(it)
			if err != nil {
				return "", err
			}
			if (it.Action == v1alpha1.DriftDegrade) == first && len(one)+1 <= room {
				keep[i] = true
				room -= len(one) + 1
			}
		}
	}
	cut := v1alpha1.Drift{Config: r.Config, Items: []v1alpha1.DriftItem{}, More: r.More + len(r.Items) - len(keep)}
	for i, it := range r.Items {
		if keep[i] {
			cut.Items = append(cut.Items, it)
		}
	}
	text, err = json.Marshal(cut)
	return string(text), err
}

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
		case strings.HasPrefix(it.Name, userPrefix):
			to.Users[s.Target] = want.Users[s.Target]
			f.addHome(to, want, s.After.User.Home)
		case strings.HasPrefix(it.Name, groupPrefix):
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
	without := machineconfig.Flattened(f.Config.Config) // as the machine has it, and as Decide compares it
	known := false
	for _, it := range items {
		var found bool
		without, found = withoutItem(without, it, f.isOfKeys(it))
		known = known || found
	}
	d := disruption.Decide(without, f.Config.Config, f.Rules)
	if !known { // No part of the config has the items, so no rule of the disruption policy applies.
		d = d.Rebooting()
	}
	return d
}

// isOfKeys reports whether an item is a file with the SSH keys of a user, or a directory above one.
func (f Facts) isOfKeys(it Item) bool {
	for _, keys := range f.Wanted.Keys {
		for _, p := range []string{keys.Path, f.Wanted.At(keys.Path)} {
			if p == it.Name || p == it.Step.Target || it.isPath() && strings.HasPrefix(p, it.Step.Target+"/") {
				return true
			}
		}
	}
	return false
}

// withoutItem returns a config without the part that an item comes from. A path that is not a file, directory, link or
// unit of the config may be of the SSH keys of its users.
func withoutItem(c machineconfig.Config, it Item, isOfKeys bool) (machineconfig.Config, bool) {
	before := c
	s, u, accounts := &c.Ignition.Storage, &c.Ignition.Systemd, &c.Ignition.Passwd
	group, isGroup := strings.CutPrefix(it.Name, groupPrefix)
	user, isUser := strings.CutPrefix(it.Name, userPrefix)
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
		return isOfKeys && len(p.SSHAuthorizedKeys) > 0
	})
	return c, len(accounts.Users) < len(was.Passwd.Users)
}

// dropped returns a copy of a list without the members for which drop is true.
func dropped[T any](list []T, drop func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), drop)
}
