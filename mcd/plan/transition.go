package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"

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
	// Refusals are the refusals that do not depend on the machine, and the problems of New.
	Refusals []disruption.Refusal
}

// Config is a config with its name.
type Config struct {
	// Name of the MachineConfig; "" for the empty config that a machine starts from.
	Name   string
	Config machineconfig.Config
	// Secrets are the paths and units that users mark as secret.
	Secrets secretmask.Paths
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
		ReferencedAccounts: disruption.AccountsNamed(b),
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
	target := Target(observed, w.Old, w.New)
	addRecord(target, record)
	found := slices.Concat(refuseUnsafe(observed, w), refuseForeignHomes(observed, target, w),
		refuseReplacedByDirs(observed, target, w), refuseAppends(observed, target, w.New), refuseOverwrites(target, w),
		refuseHardLinks(target, w.New), refuseNewIDs(observed, target),
		refuseRemovedAccounts(target, w.ReferencedAccounts), refuseUsedDirs(target, w),
		refuseObstructedUnits(observed, target, w))
	for i := range found {
		found[i].Field = w.spelled(found[i].Field)
	}
	problems := append(slices.Clone(w.Refusals), aboutOtherFields(w.Refusals, found)...)
	maps.Copy(target.Contents, w.New.Contents)
	p = Diff(observed, target, DiffOptions{
		From: w.From, To: w.To, Decision: w.Decision, Problems: problems, Last: otherKeys(w.New),
		MergeKeys: ChangedKeys(observed, target, w.Old, w.New),
	})
	p.Notes, p.Masks = obstructedUnits(observed, target, w), masks(w.New)
	return p, target.Contents
}

// spelled returns the field of a refusal with the path as a config writes it.
func (w Transition) spelled(field string) string {
	list, p, is := strings.Cut(field, " /")
	if p = "/" + p; !is {
		list, p = "", field
	}
	name := w.New.Spelling(p)
	if name == p {
		name = w.Old.Spelling(p)
	}
	return strings.TrimPrefix(list+" "+name, " ")
}

// aboutOtherFields returns the refusals in more whose fields have no refusal in already. One reason for each field is
// enough.
func aboutOtherFields(already, more []disruption.Refusal) []disruption.Refusal {
	return slices.DeleteFunc(slices.Clone(more), func(r disruption.Refusal) bool {
		return r.Field != "" && slices.ContainsFunc(already,
			func(o disruption.Refusal) bool { return o.Field == r.Field })
	})
}

// withFirstPaths returns the empty config with the directories and links of the first config. The reason is that a
// running machine refuses changes of these paths, but a machine without a config accepts the paths.
func withFirstPaths(empty, first machineconfig.Config) machineconfig.Config {
	empty.Ignition.Storage.Directories = first.Ignition.Storage.Directories
	empty.Ignition.Storage.Links = first.Ignition.Storage.Links
	return empty
}
