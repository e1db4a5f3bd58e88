package plan

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Transition is the change from one config to another, without a machine. The packages mcd/agent and review use a
// Transition.
type Transition struct {
	// From and To are the configs' names.
	From, To string
	// Old and New are the states that the two configs require.
	Old, New Desired
	// Decision is the disruption of the change.
	Decision disruption.Decision
	// ReferencedAccounts are the accounts that the new config names and does not create.
	ReferencedAccounts []disruption.Account
	// KeysFile is AuthorizedKeysFile of sshd, as the files of the new config set it; "" if none does.
	KeysFile string
	// Refusals are the refusals that do not depend on the machine, and the problems of New.
	Refusals []disruption.Refusal
}

// Rules are the cluster's disruption policy and overrides.
type Rules struct {
	// Policy has the disruption of each difference.
	Policy disruption.Policy
	// Overrides lift refusals.
	Overrides disruption.Overrides
}

// NewTransition returns a transition with its disruption and its refusals.
func NewTransition(from, to Config, rules Rules, accounts host.Accounts) Transition {
	a, b := disruption.Running(from.Config, to.Config)
	w := Transition{
		From: from.Name, To: to.Name, Old: DesiredOf(a, accounts), New: DesiredOf(b, accounts),
		ReferencedAccounts: disruption.AccountsNamed(b), KeysFile: disruption.KeysFileSetting(b.Ignition),
	}
	w.Decision = disruption.Decide(from.Config, to.Config, rules.Policy)
	old := from.Config
	if from.Name == "" {
		old = withFirstPaths(old, machineconfig.Flattened(to.Config))
	}
	w.Refusals = disruption.Refuse(old, to.Config, rules.Overrides)
	w.Refusals = append(w.Refusals, aboutOtherFields(w.Refusals, w.New.Problems)...)
	return w
}

// WithReboot returns the transition with a drain and a reboot, independently of the policy.
func (w Transition) WithReboot() Transition {
	w.Decision = w.Decision.Rebooting()
	return w
}

// Scope returns the part of the machine that has to be observed.
func (w Transition) Scope() Scope { return ScopeOf(w.Old, w.New) }

// Plan returns the steps on an observed machine. The parameter record is the content of the record of the new config.
// The result contents has the contents that the steps write, by digest.
func (w Transition) Plan(observed host.State, record []byte) (p Plan, contents map[host.Digest][]byte) {
	twice, names := refuseUnitTwice(observed, w.New), map[string]string{}
	w.Old, w.New = withUnits(observed, w.Old, nil), withUnits(observed, w.New, names)
	observed = withoutAliases(observed, w.New)
	target := Target(observed, w.Old, w.New)
	addRecord(target, record)
	refusals := append(w.refusals(observed, target), twice...)
	for i, r := range refusals {
		if name := names[strings.TrimPrefix(r.Field, "systemd.units ")]; name != "" {
			refusals[i].Field = "systemd.units " + name
		}
	}
	maps.Copy(target.Contents, w.New.Contents)
	p = Diff(observed, target, DiffOptions{
		From: w.From, To: w.To, Decision: w.Decision, Problems: refusals, Last: otherKeys(w.New),
		Linked: linkedUnits(observed, target, w.New), Gone: w.goneUnits(target),
		MergeKeys: ChangedKeys(observed, target, w.Old, w.New),
	})
	p.Notes, p.Masks = obstructedUnits(observed, target, w), masks(w.New)
	return p, target.Contents
}

// goneUnits returns the units of which the old config has the file, and of which the machine has none after the update.
func (w Transition) goneUnits(target host.State) map[string]bool {
	gone := map[string]bool{}
	for name, u := range w.Old.Units {
		is, known := target.Units[name]
		if u.HasContents && known && is.Obstacle.Why == host.UnitMissing {
			gone[name] = true
		}
	}
	return gone
}

// withoutAliases returns a state without the units that are only other names of units, if a config has a file of its
// own at such a name. The links and the drop-ins of the other unit are not the new one's.
func withoutAliases(observed host.State, w Desired) host.State {
	var own []string
	for name, u := range observed.Units {
		_, ours := w.Paths[UnitPath(name)]
		if ours && u.AliasOf != "" {
			own = append(own, name)
		}
	}
	if len(own) > 0 {
		observed.Units = maps.Clone(observed.Units)
	}
	for _, name := range own {
		observed.Units[name] = host.Unit{Preset: observed.Units[name].Preset}
	}
	return observed
}

// withUnits returns a config with the settings of units under the units' own names, because a unit has one state under
// all its names. A link of a user stays another unit, which nobody can enable. The map names gets the names that the
// config has instead.
func withUnits(observed host.State, w Desired, names map[string]string) Desired {
	units := maps.Clone(w.Units)
	for _, name := range slices.Sorted(maps.Keys(w.Units)) {
		u := observed.Units[name]
		if _, ours := w.Paths[UnitPath(name)]; ours || u.AliasOf == "" || u.Obstacle.Why == host.UnitAlias {
			continue
		}
		delete(units, name)
		is, twice := units[u.AliasOf]
		if !twice {
			is = w.Units[name]
			if names != nil {
				names[u.AliasOf] = name
			}
		}
		if is.Enabled == nil {
			is.Enabled = w.Units[name].Enabled
		}
		units[u.AliasOf] = is
	}
	w.Units = units
	return w
}

// linkedUnits returns the units that a config enables, and of which the update removes a link that enables them too, or
// leads it elsewhere. The link is that of an earlier config, beside its units. The daemon then makes all links anew.
func linkedUnits(observed, target host.State, w Desired) map[string]bool {
	all := map[string]bool{}
	for p, is := range observed.Paths {
		name := path.Base(p)
		if is.Kind == host.Link && is != target.Paths[p] && disruption.IsWant(p) && enables(w, name) {
			all[name] = true
		}
	}
	return all
}

// masks returns the files of units that a config masks, by path.
func masks(w Desired) map[string]bool {
	all := map[string]bool{}
	for p, e := range w.Paths {
		if path.Dir(p) == host.UnitDir && host.IsMask(p, e) {
			all[p] = true
		}
	}
	return all
}

// withFirstPaths returns the empty config with the directories and links of the first config. The reason is that a
// running machine refuses changes of these paths, but a machine without a config accepts the paths.
func withFirstPaths(empty, first machineconfig.Config) machineconfig.Config {
	empty.Ignition.Storage.Directories = first.Ignition.Storage.Directories
	empty.Ignition.Storage.Links = first.Ignition.Storage.Links
	return empty
}

// Beside returns the steps from one set of files beside a config to another. The sets have paths only. As with a
// config, the machine's own files are stored and restored. The Field of each refusal is a path. The plan has no
// actions.
func Beside(observed host.State, name string, old, want Desired) (Plan, map[host.Digest][]byte) {
	old.OS, want.OS = observed.OS, observed.OS
	w := Transition{From: name, To: name, Old: old, New: want}
	target := Target(observed, old, want)
	for p := range want.Paths {
		k, is := recordOfOriginal(observed, p), observed.Paths[p]
		_, had := old.Paths[p]
		// also a file with the same contents, which Target would not store
		if !had && !k.isKnown() && is.Kind == host.File && !isDefault(observed, p, is) {
			target.Paths[k.origAt] = is
			for dir := range disruption.Parents(k.origAt) {
				if target.Paths[dir].Kind == host.Absent {
					target.Paths[dir] = directory(dir, nil)
				}
			}
		}
	}
	maps.Copy(target.Contents, want.Contents)
	refusals := slices.Concat(refuseUnsafe(observed, w), refuseReplacedByDirs(observed, target, w),
		refuseSamePaths(target, want), refuseUsedDirs(target, w))
	return Diff(observed, target, DiffOptions{From: name, To: name, Problems: refusals}), target.Contents
}
