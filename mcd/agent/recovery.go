package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// recoverUpdate finishes or rolls back an update that a crash, a reboot or the end of the process interrupted.
func recoverUpdate(ctx context.Context, a *Agent) error {
	end, err := a.runner.Recover(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		if rec, errLoad := a.Host.Journal.Load(); errLoad == nil && rec != nil {
			return &unfinishedError{rec.To, err}
		}
		return err
	case end.End == apply.Rebooting:
		a.enter(report.Rebooting)
		return reportReboot(ctx, a, end)
	case end.End == apply.RebootUnknown:
		return newRebootUnknownError(a, end)
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
	return cmp.Or[error](context.Cause(ctx), &unfinishedError{end.To, fmt.Errorf("checking whether the machine is "+
		"healthy with %s: %w", end.To, end.Why)})
}

// rebootUnknownError is the error while it is unknown whether the machine reboots.
type rebootUnknownError struct {
	// config is the config into which the machine may be rebooting.
	config string
	cause  error
}

// newRebootUnknownError returns the error of a reboot whose acceptance is unknown. The phase is that of a reboot,
// because nothing was rolled back.
func newRebootUnknownError(a *Agent, end apply.Applied) error {
	a.enter(report.Rebooting)
	config := end.To
	if rec, err := a.Host.Journal.Load(); err == nil && rec != nil && rec.Phase == host.RollbackReboot {
		config = end.From
	}
	return &rebootUnknownError{config, end.Why}
}

// Error names the config, the cause, and where to look.
func (e *rebootUnknownError) Error() string {
	cause := e.cause
	var unknown *fault.UnknownError
	if errors.As(cause, &unknown) {
		cause = unknown.Err
	}
	return fmt.Sprintf("it is unknown whether the machine reboots into %s: %v; the daemon looks again, and requests "+
		"the reboot again if the machine does not go down: see systemctl list-jobs, and systemctl status dbus "+
		"systemd-logind, on the node", e.config, cause)
}

// Unwrap returns why it is unknown.
func (e *rebootUnknownError) Unwrap() error { return e.cause }

// reportRebootUnknown reports the error on the Node once it has lasted for outageLimit. A machine that goes down needs
// less time, and reports after the boot.
func reportRebootUnknown(ctx context.Context, a *Agent, why error) (reported bool, err error) {
	if a.unanswered.Elapsed("reboot", time.Time{}) < outageLimit {
		return false, why
	}
	setStatus(a, v1alpha1.StateDegraded, why.Error())
	a.status.Node.Failure = "" // That of an earlier attempt.
	publishStatus(a)
	failed := a.reportState(ctx, v1alpha1.StateDegraded, why.Error())
	return failed == nil, errors.Join(why, failed)
}

// partialRollbackError returns the error of a rollback that failed: the machine is between two configs.
func partialRollbackError(end apply.Applied) error {
	return &unfinishedError{end.To, fmt.Errorf("rolling back from %s to %s: %w; the node has parts of both configs, "+
		"and the daemon retries the rollback: fix what blocks it", end.To, report.RollbackTarget(end.From, end.To),
		end.Why)}
}
