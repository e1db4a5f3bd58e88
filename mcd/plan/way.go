package plan

import (
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/policy/secret"
)

// Way is a transition between two configs, before anybody looked at the machine. It ties the steps of this package
// together for those who have a machine (mcd/agent) and those who have not (review).
type Way struct {
	// From and To are the configs' names.
	From, To string
	// Old and New are what they want.
	Old, New Wanted
	// Decision on what the change costs.
	Decision policy.Decision
	// Named are the accounts that the new config names and does not make.
	Named []policy.Account
	// Refusals that hold on any machine, and those of New.
	Refusals []policy.Refusal
}

// Named is a config with its name.
type Named struct {
	// Name of the MachineConfig; "" for the empty config that a machine starts from.
	Name string
	// Config itself.
	Config machineconfig.Config
	// Secrets are the paths and units that users mark as secret.
	Secrets secret.Paths
}

// Rules are a cluster's say in what a transition costs and what is refused.
type Rules struct {
	// Policy is what each difference costs.
	Policy policy.Policy
	// Overrides lift refusals.
	Overrides policy.Overrides
}

// NewWay judges the transition: what it costs by the policy, and what of it is refused.
func NewWay(from, to Named, rules Rules, accounts host.Accounts) Way {
	a, b := policy.Running(from.Config, to.Config)
	w := Way{From: from.Name, To: to.Name, Old: Want(a, accounts), New: Want(b, accounts), Named: policy.AccountsNamed(b)}
	w.Decision = policy.Decide(from.Config, to.Config, rules.Policy)
	old := from.Config
	if from.Name == "" {
		old = adopt(old, machineconfig.Flattened(to.Config))
	}
	w.Refusals = policy.Refuse(old, to.Config, rules.Overrides)
	w.Refusals = append(w.Refusals, others(w.Refusals, w.New.Problems)...)
	return w
}

// Rebooting is the way with a drain and a reboot, whatever the policy says.
func (w Way) Rebooting() Way {
	w.Decision = w.Decision.Rebooting()
	return w
}

// Scope is what has to be observed.
func (w Way) Scope() Scope { return ScopeOf(w.Old, w.New) }

// Plan works out the steps on an observed machine; record is the content of the record of the new config. Contents has
// all that the steps write, by digest.
func (w Way) Plan(observed host.State, record []byte) (p Plan, contents map[host.Digest][]byte) {
	target := Target(observed, w.Old, w.New)
	addRecord(target, record)
	found := slices.Concat(unsafe(observed, w), othersHomes(observed, target, w), inTheWay(observed, target, w), cannotAppend(observed, target, w.New), occupied(target, w), unlinkable(target, w.New), collisions(target, w.New), renumbered(observed, target), leaving(target, w.Named), inUse(target, w))
	problems := append(slices.Clone(w.Refusals), others(w.Refusals, found)...)
	maps.Copy(target.Contents, w.New.Contents)
	return Diff(observed, target, Ask{From: w.From, To: w.To, Decision: w.Decision, Problems: problems}), target.Contents
}

// others are the refusals about what is not refused already: one reason is enough.
func others(already, more []policy.Refusal) []policy.Refusal {
	return slices.DeleteFunc(slices.Clone(more), func(r policy.Refusal) bool {
		return r.Field != "" && slices.ContainsFunc(already, func(o policy.Refusal) bool { return o.Field == r.Field })
	})
}

// adopt gives the empty config those parts of the first config that a running machine refuses to have changed but that
// a machine which has nothing yet can take: directories and links.
func adopt(empty, first machineconfig.Config) machineconfig.Config {
	empty.Ignition.Storage.Directories = first.Ignition.Storage.Directories
	empty.Ignition.Storage.Links = first.Ignition.Storage.Links
	return empty
}
