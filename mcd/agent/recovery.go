package agent

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// recoverUpdate finishes or rolls back an update that a crash, a reboot or the end of the process interrupted.
func recoverUpdate(ctx context.Context, a *Agent) error {
	end, err := a.runner.Recover(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return err
	case end.End == apply.Rebooting:
		a.enter(report.Rebooting)
		return reportReboot(ctx, a, end)
	case end.End == apply.HealthUnknown:
		return healthUnknown(ctx, end)
	case end.End == apply.New:
		a.Log.Info("the new config is in force", "config", end.To)
		a.recordUpdate(end.To, nil)
	case end.End == apply.Old && end.From == end.To && !isUpdate(a, end.To):
		a.Log.Warn("rolled back a repair, or a change of files beside the config", "config", end.From, "why", end.Why)
	case end.End == apply.Old:
		reportRollback(a, end)
	case end.End == apply.RollbackFailed:
		a.status.Planned = true
		return partialRollbackError(end)
	}
	return nil
}

// isUpdate reports whether the daemon has stored an update to a config.
func isUpdate(a *Agent, config string) bool {
	t, err := a.files.Task(config)
	return err != nil || t != nil
}

// reportReboot reports that the machine reboots and returns ErrRebooting. For a rollback, reportReboot reports the
// reason on the Node first.
func reportReboot(ctx context.Context, a *Agent, end apply.Applied) error {
	if a.Metrics != nil {
		a.Metrics.Reboot(nil)
	}
	if end.Why == nil {
		return ErrRebooting
	}
	why := end.Why.Error()
	if v, err := a.files.Rejection(); err == nil && v.IsFinal() && v.Config == end.To {
		why = v.Why
	}
	publishRollback(a, end, why)
	a.event(report.EventReboot, "rebooting to roll back to %s", report.RollbackTarget(end.From, end.To))
	if err := a.reportState(ctx, v1alpha1.StateDegraded, why); err != nil {
		a.Log.Warn("reporting the rollback", "err", err)
	}
	return ErrRebooting
}

// reportRollback reports the rollback of an update.
func reportRollback(a *Agent, end apply.Applied) {
	a.Log.Warn("rolled back", "config", end.From, "from", end.To, "why", end.Why)
	a.recordUpdate(end.To, end.Why)
	reason := report.EventRolledBack
	if v, err := a.files.Rejection(); err == nil && v.IsFinal() && v.Config == end.To {
		reason = report.EventRejected
	}
	a.event(reason, "rolled back from %s to %s: %v", end.To, report.RollbackTarget(end.From, end.To), end.Why)
}

// recordUpdate records the result of an update in the metrics.
func (c Config) recordUpdate(config string, err error) {
	if c.Metrics != nil {
		c.Metrics.Update(config, err)
	}
}

// healthUnknown returns why the health check has no result yet. The usual reason is that the daemon was stopped during
// the check.
func healthUnknown(ctx context.Context, end apply.Applied) error {
	return cmp.Or(context.Cause(ctx), fmt.Errorf("checking whether the machine is healthy with %s: %w", end.To,
		end.Why))
}

// partialRollbackError returns the error of a rollback that failed: the machine is between two configs.
func partialRollbackError(end apply.Applied) error {
	return &configError{end.To, fmt.Errorf("rolling back from %s to %s: %w; the node has parts of both configs, and "+
		"the daemon retries the rollback: fix what blocks it", end.To, report.RollbackTarget(end.From, end.To),
		end.Why)}
}
