package agent

import (
	"context"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// noteUnits emits an event for each unit of the config that the image which has booted does not let anybody enable,
// once for each boot.
func (u *updater) noteUnits(p plan.Plan, boot string) {
	if u.notedBoot == boot {
		return
	}
	u.notedBoot = boot
	for _, note := range p.Notes {
		u.report.event(report.EventUnitNotEnabled, "%s", note)
	}
}

// rewriteAfterBoot writes the config once more, with another reboot, if the machine booted a newly staged OS and then
// differs from the config. A system with OSTree keeps a file of /etc only if it differs from the default of the image
// before, so a file of the config that was this default has the content of the new default. It waits for another drain
// if somebody has uncordoned the node meanwhile. It proceeds if the machine has the config, if it has booted since the
// second writing, which then did not help, or if the daemon has let the node take pods again: what differs from then on
// is drift.
func (u *updater) rewriteAfterBoot(ctx context.Context, node report.Node) Outcome {
	t, err := u.files.Task(node.Desired)
	if err != nil || t == nil || !t.Staged {
		return outcomeOf(err)
	}
	boot, err := u.host.Power.BootID()
	if err != nil || t.Rewritten != "" && t.Rewritten != boot {
		return outcomeOf(err)
	}
	at, err := u.configs.inForce(ctx, node)
	if err != nil {
		return outcomeOf(err)
	}
	text, err := plan.RecordOf(t.Config)
	if err != nil {
		return outcomeOf(err)
	}
	accounts, err := apply.Accounts(ctx, u.host)
	if err != nil {
		return outcomeOf(err)
	}
	way, err := apply.Place(u.host, plan.NewTransition(at, at, t.Rules, accounts).WithReboot())
	if err != nil {
		return outcomeOf(err)
	}
	observed, err := apply.Observe(ctx, u.host, way.Scope())
	if err != nil {
		return outcomeOf(err)
	}
	p, contents := way.Plan(observed, text)
	u.noteUnits(p, boot)
	p, differ, err := u.drift.scanner().AfterBoot(ctx, at, way, p)
	if err != nil || len(differ) == 0 || len(p.Refusals) > 0 {
		return outcomeOf(err)
	}
	if p.Drain {
		if asked, _ := v1alpha1.ParseDrainRequest(node.DesiredDrain); asked.Verb == v1alpha1.UncordonVerb {
			return Outcome{}
		}
		if o := u.drains.drain(ctx, node, t.ConfigText(), ""); o.ends() {
			return o
		}
	}
	u.report.event(report.EventReboot, "the OS that booted has other contents of %s; writing the config once more",
		strings.Join(differ, ", "))
	u.report.enter(report.Confirming)
	u.report.enter(report.Planned)
	t.Rewritten = boot
	t.Attempt++
	if err := u.files.Save(ctx, state.TaskPath, t); err != nil {
		return outcomeOf(err)
	}
	return u.apply(ctx, update{node: node, task: *t, way: way, plan: p, contents: contents})
}
