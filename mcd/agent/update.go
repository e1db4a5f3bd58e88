package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/progress"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// update brings the node to the desired config, as far as it can get now. What the cluster cannot be told now is no reason
// to stop; what it has to be asked is.
func (a *Agent) update(ctx context.Context, node protocol.Assignment) error {
	way, t, err := draft{a}.way(ctx, node)
	if err != nil {
		return err
	}
	p, contents, err := draft{a}.plan(ctx, way, t)
	if err != nil {
		return err
	}
	a.enter(progress.Planned)
	a.at.Planned, a.at.Drains, a.at.Reboots = true, p.Drain, p.Reboots()
	if a.failed != node.Desired && node.State != v1alpha1.StateWorking {
		a.Log.Info("updating", "config", t.about(), "disruption", p.Disruption.String(), "steps", len(p.Steps))
		reason, err := newborn{a.Config}.reason(node, t)
		if err != nil {
			return err
		}
		sign{a}.says(v1alpha1.StateWorking, reason)
		if err := a.later(a.report(ctx, v1alpha1.StateWorking, reason)); err != nil {
			return err
		}
	}
	a.at.Told.Current = p.From
	if p.From != "" && node.Current != p.From { // what is on disk is in force, and was not told before it died
		if err := a.later(a.annotate(ctx, map[string]string{v1alpha1.CurrentConfigAnnotation: p.From})); err != nil {
			return fmt.Errorf("reporting the config in force: %w", err)
		}
	}
	if p.Drain {
		if err := a.memory.keep(ctx, TaskPath, t); err != nil {
			a.failed = node.Desired
			return err
		}
		if err := (doors{a.Config, &a.asked}).drain(ctx, node, t.about()); err != nil {
			if errors.Is(err, errStuck) && a.failed != node.Desired {
				a.failed = node.Desired
				a.event(protocol.EventFailedToDrain, "%v", err)
			}
			a.enter(progress.Draining)
			if a.failed != node.Desired {
				sign{a}.put()
			}
			return err
		}
	}
	t.Before = a.gate.before(ctx, p.Steps, a.told != nil)
	t.Attempt++
	if err := a.memory.keep(ctx, TaskPath, t); err != nil {
		a.failed = node.Desired
		return err
	}
	return a.apply(ctx, t, p, contents)
}

// apply does the steps. From here on, what goes wrong is the config's failure: the node says so until it has another.
func (a *Agent) apply(ctx context.Context, t task, p plan.Plan, contents map[host.Digest][]byte) error {
	name, about := t.Config.Name, t.about()
	if p.Reboots() {
		if err := a.later(a.annotate(ctx, map[string]string{v1alpha1.PostConfigActionAnnotation: "Rebooting"})); err != nil {
			return err
		}
	}
	a.announce(p, about)
	a.enter(progress.Applying)
	if a.failed != name { // one that is tried again and again is not shown again and again
		sign{a}.put()
	}
	a.failed = name // until it is confirmed
	a.gate.own = t.attempt()
	told := context.AfterFunc(ctx, func() {
		a.Log.Warn("told to end; finishing the steps first", "config", name)
		a.event(protocol.EventGotSigterm, "told to end while going to %s; finishing the steps first", about)
	})
	done, err := a.runner.Run(context.WithoutCancel(ctx), p, contents)
	told()
	if err != nil {
		return fmt.Errorf("updating to %s: %w; nothing was done yet: see df and mount on the node", about, err)
	}
	switch done.End {
	case apply.New:
		a.enter(progress.Confirming) // another config may be desired by now, which begins a new update
		a.met(name, nil)
		if len(p.Steps) > 0 {
			a.event(protocol.EventSkipReboot, "in %s without a reboot", about)
		}
		return errAgain
	case apply.Unjudged:
		return unjudged(ctx, done)
	case apply.Rebooting:
		a.enter(progress.Rebooting)
		a.Log.Info("rebooting", "config", name)
		return aftermath{a}.down(ctx, done)
	}
	a.met(name, done.Why)
	a.blame(done)
	if done.End == apply.Between {
		return between(done)
	}
	if v, err := a.memory.verdict(); err == nil && v.stands() && v.Config == name {
		a.event(protocol.EventRejected, "%s", v.Why)
		return &standingError{*v}
	}
	return fmt.Errorf("updating to %s: %w; the node is back in %s and tries again: %s, or fix or revert the commit", about, done.Why, before(p.From, p.To), look(done.Stopped))
}

// announce tells what is about to happen to people who look at events.
func (c Config) announce(p plan.Plan, about string) {
	if p.Stages() {
		c.event(protocol.EventOSUpdateStarted, "staging the OS for %s", about)
	}
	for _, s := range p.Steps {
		if s.Verb == host.SetImage {
			c.event(protocol.EventInClusterUpgrade, "updating from OS image %s to %s", s.Before.Word, s.After.Word)
		}
	}
	if p.Reboots() {
		c.event(protocol.EventReboot, "the node will reboot into %s", about)
	}
}

// blame tells of the service that failed.
func (c Config) blame(done apply.Applied) {
	s := done.Stopped
	if s == nil {
		return
	}
	switch s.Verb {
	case host.Reload:
		c.event(protocol.EventFailedServiceReload, "%v", done.Why)
	case host.Restart:
		c.event(protocol.EventFailedServiceRestart, "%v", done.Why)
	case host.Reboot:
		if c.Metrics != nil {
			c.Metrics.Reboot(done.Why)
		}
	case host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions:
		if c.Metrics != nil {
			c.Metrics.Pivot(done.Why)
		}
	}
}
