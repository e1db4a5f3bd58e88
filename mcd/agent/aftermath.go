package agent

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/progress"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// aftermath is what comes of an update that a crash, a reboot or the end of the process cut in two.
type aftermath struct{ *Agent }

// settle finishes what a crash or a reboot left.
func (a aftermath) settle(ctx context.Context) error {
	end, err := a.runner.Recover(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return err
	case end.End == apply.Rebooting:
		a.at.Phase = progress.Rebooting
		return a.down(ctx, end)
	case end.End == apply.Unjudged:
		return unjudged(ctx, end)
	case end.End == apply.New:
		if a.at.Phase != progress.Checking {
			a.at.Phase = progress.Rebooting // or a crash at the very end; either way it is confirmed now
		}
		a.Log.Info("the new config is in force", "config", end.To)
		a.met(end.To, nil)
	case end.End == apply.Old:
		a.wentBack(end)
	case end.End == apply.Between:
		a.at.Planned = true
		return between(end)
	}
	return nil
}

// down tells that the machine reboots; on its way back, the Node says so before.
func (a aftermath) down(ctx context.Context, end apply.Applied) error {
	if a.Metrics != nil {
		a.Metrics.Reboot(nil)
	}
	if end.Why == nil {
		return ErrRebooting
	}
	why := end.Why.Error()
	if v, err := a.memory.verdict(); err == nil && v.stands() && v.Config == end.To {
		why = v.Why
	}
	sign(a).returns(end, why)
	a.event(protocol.EventReboot, "rebooting to go back to %s", before(end.From, end.To))
	if err := a.report(ctx, v1alpha1.StateDegraded, why); err != nil {
		a.Log.Warn("telling that it goes back", "err", err)
	}
	return ErrRebooting
}

// wentBack tells of an update that was taken back.
func (a aftermath) wentBack(end apply.Applied) {
	a.Log.Warn("went back", "config", end.From, "from", end.To, "why", end.Why)
	a.met(end.To, end.Why)
	reason := protocol.EventWentBack
	if v, err := a.memory.verdict(); err == nil && v.stands() && v.Config == end.To {
		reason = protocol.EventRejected
	}
	a.event(reason, "back in %s from %s: %v", before(end.From, end.To), end.To, end.Why)
}

// met counts how an update ended.
func (c Config) met(config string, err error) {
	if c.Metrics != nil {
		c.Metrics.Update(config, err)
	}
}

// unjudged is why nobody knows yet whether the machine is healthy: mostly, that the daemon is told to end.
func unjudged(ctx context.Context, end apply.Applied) error {
	return cmp.Or(context.Cause(ctx), fmt.Errorf("looking whether the machine is healthy with %s: %w", end.To, end.Why))
}

func between(end apply.Applied) error {
	return fmt.Errorf("going back from %s to %s: %w; the node is between the two, and going back is tried again: put right what is in its way", end.To, before(end.From, end.To), end.Why)
}
