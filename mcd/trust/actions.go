package trust

import (
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Actions returns the steps that follow a change of files: the program of the trust store, then the actions of the
// disruption policy. Without a rule, and with a rule that drains or reboots, the services restart that read the trust
// store only when they start.
func (t *Target) Actions(changed []string, rules disruption.Policy) (steps []plan.Step) {
	add := func(s plan.Step) {
		if !slices.Contains(steps, s) {
			steps = append(steps, s)
		}
	}
	if slices.ContainsFunc(changed, t.Machine.isAnchor) {
		add(plan.Step{Verb: host.UpdateTrust, Target: t.Machine.Store.Program})
	}
	for _, p := range changed {
		d := decide(p, rules)
		if d.Drain || d.Disruption >= disruption.Drain {
			for _, service := range t.readers(p) {
				add(plan.Step{Verb: host.Restart, Target: service})
			}
			continue
		}
		for _, a := range d.Actions {
			switch a.Type {
			case disruption.ActionDaemonReload:
				add(plan.Step{Verb: host.DaemonReload})
			case disruption.ActionReload:
				add(plan.Step{Verb: host.Reload, Target: a.Service})
			case disruption.ActionRestart:
				add(plan.Step{Verb: host.Restart, Target: a.Service})
			}
		}
	}
	return steps
}

// decide returns the decision of the disruption policy about one path.
func decide(p string, rules disruption.Policy) disruption.Decision {
	empty := machineconfig.Config{HasIgnition: true}
	one := empty
	one.Ignition.Storage.Files = []ign.File{{Node: ign.Node{Path: p}}}
	return disruption.Decide(empty, one, rules)
}

// readers returns the services that read a path only when they start.
func (t *Target) readers(p string) []string {
	if t.Machine.isAnchor(p) {
		return distribution.TrustReaders()
	}
	return nil
}
