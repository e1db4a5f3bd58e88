package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// StatusPublisher publishes the progress of the daemon as the status of the node's MachineConfigNode.
type StatusPublisher interface {
	// Publish replaces the status that was published before. Publish returns at once and never fails. A status that is
	// soon replaced by the next one may never be written.
	Publish(at report.Status)
}

// publishStatus publishes the agent's status. publishStatus skips a status without a desired config, unless the agent
// is idle.
func publishStatus(a *Agent) {
	a.status.Phase = a.phase.Phase()
	if a.Status != nil && (a.status.Node.Desired != "" || a.status.Phase == report.Idle) {
		a.Status.Publish(a.status)
	}
}

// setStatus records the state and the reason for the next publishStatus.
func setStatus(a *Agent, state, reason string) {
	a.status.Node.State, a.status.Node.Reason = state, v1alpha1.TruncateReason(reason)
}

// restoreStatus fills the status from the journal of an update, which an earlier process may have started.
// restoreStatus needs no API server.
func restoreStatus(a *Agent, rec host.Record) {
	a.status.Planned, a.status.Reboots = true, health.Reboots(rec)
	if a.status.Node.Desired == rec.To {
		return
	}
	a.status.Node = report.Node{Current: rec.From}
	if t, err := a.files.Task(rec.To); err == nil && t != nil {
		a.status.Node = t.Node // t.Node is the Node as it was at the start of the steps.
	}
	a.status.Node.Desired = rec.To
	if a.status.Node.State != v1alpha1.StateDegraded {
		setStatus(a, v1alpha1.StateWorking, "")
	}
	a.status.Drains = a.status.Reboots || strings.HasPrefix(a.status.Node.LastAppliedDrain, v1alpha1.DrainVerb+"-")
}

// publishReboot publishes that the machine reboots for the update of a journal.
func publishReboot(a *Agent, rec host.Record) {
	restoreStatus(a, rec)
	a.enter(report.Rebooting)
	publishStatus(a)
}

// namedReboot is a host.Power whose reboots name the config and the commit, for users who are logged in.
type namedReboot struct {
	host.Power
	agent *Agent
}

// Reboot implements host.Power.
func (r namedReboot) Reboot(ctx context.Context, why string) error {
	if rec, err := r.agent.Host.Journal.Load(); err == nil && rec != nil {
		why = r.agent.check.RebootText(*rec)
		// In the phase RollbackReboot, reportReboot publishes the rollback with the reason.
		if rec.Phase != host.RollbackReboot {
			publishReboot(r.agent, *rec)
		}
	}
	return r.Power.Reboot(ctx, why)
}

// Sync reconciles the node and returns the desired config. No error means that there is nothing to do until the Node
// or the machine changes. Sync reports a failure on the Node, if it can reach the API server; otherwise a later Sync
// derives the report from the state on disk.
func (a *Agent) Sync(ctx context.Context) (desired string, err error) {
	defer a.Fetch.Lock()()
	desired, reported, err := syncAndReport(ctx, a)
	if reported && a.Reported != nil {
		a.Reported()
	}
	return desired, err
}

// syncAndReport does the work of Sync, and also returns whether it reported the state of the node.
func syncAndReport(ctx context.Context, a *Agent) (desired string, reported bool, err error) {
	for {
		desired, err = a.reconcile(ctx)
		var refused *refusedError
		var standing *rejectedError
		var drifted *driftedError
		switch {
		case errors.Is(err, errResync):
			continue
		case err == nil, errors.Is(err, errWaiting):
			a.outage.MarkReachable(a.Log)
			return desired, true, nil
		case errors.Is(err, ErrRebooting), ctx.Err() != nil:
			return desired, false, err
		case errors.As(err, new(*rebootUnknownError)):
			reported, err = reportRebootUnknown(ctx, a, err)
			return desired, reported, err
		case errors.As(err, &refused):
			a.enter(report.Refused)
			a.failed, a.status.Refusals = "", refused.refusals
			err = a.reportBlocked(ctx, v1alpha1.StateUnreconcilable, err)
			return desired, err == nil, err
		case errors.As(err, &standing):
			a.enter(report.Rejected)
			a.failed = ""
			err = a.reportBlocked(ctx, v1alpha1.StateDegraded, err)
			return desired, err == nil, err
		case errors.As(err, &drifted):
			a.enter(report.Drifted)
			err = a.reportBlocked(ctx, v1alpha1.StateDegraded, err)
			return desired, err == nil, err
		case errors.As(err, new(*fetch.SyncError)):
			return desired, true, errors.Join(err, reportUnfetched(ctx, a, err))
		case errors.Is(err, report.ErrUnreachable) && isTolerated(a, err):
			return desired, false, errors.Join(err, reportUnreadConfig(ctx, a, err))
		}
		a.enter(a.phaseAfter(err))
		setStatus(a, v1alpha1.StateDegraded, err.Error())
		a.status.Node.Failure = failureOf(desired, a.Phase(), err).String()
		publishStatus(a)
		reportFailure(ctx, a, desired, err)
		failed := a.reportState(ctx, v1alpha1.StateDegraded, err.Error())
		return desired, failed == nil, errors.Join(err, failed)
	}
}

// reportUnfetched reports why the node cannot download files of its desired config.
func reportUnfetched(ctx context.Context, a *Agent, problem error) error {
	if a.node != nil {
		is := fetch.WithProblem(v1alpha1.ConfigName(a.node.Desired), fetch.LastReport(a.node.Fetched),
			problem)
		if err := a.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: is.String()}); err != nil {
			return err
		}
	}
	return reportWaiting(ctx, a, problem.Error())
}

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

// phaseAfter returns the phase in which a failure leaves the update.
func (a *Agent) phaseAfter(err error) report.Phase {
	now := a.Phase()
	switch {
	case errors.As(err, new(*rolledBackError)):
		return report.RolledBack
	case errors.As(err, new(*unfinishedError)):
		if slices.Contains([]report.Phase{report.Rebooting, report.Checking}, now) {
			return now
		}
		return report.Applying
	case errors.As(err, new(*blockedError)):
		return report.Blocked
	case errors.Is(err, errDrainStuck):
		return report.Draining
	case a.status.InForce:
		return report.Confirming
	}
	return report.Blocked
}

// isTolerated reports whether a missing answer is not a failure yet. isTolerated tolerates an error if the whole API
// server does not answer, or if only a part of it has failed for a short time.
func isTolerated(a *Agent, err error) bool {
	if a.node == nil {
		return true
	}
	limit := outageLimit
	var unread *unreadConfigError
	if errors.As(err, &unread) {
		limit = unreadFailAfter
	}
	missing := a.outage.MarkUnreachable(a.Log, "a part of the cluster gives no usable answer", "err", err)
	return missing < limit || errors.As(err, new(*secrets.WaitError))
}

// reportUnreadConfig reports that the node waits for its config or the secrets of its config, once the wait has lasted
// for unreadReportAfter.
func reportUnreadConfig(ctx context.Context, a *Agent, err error) error {
	waits := errors.As(err, new(*unreadConfigError)) || errors.As(err, new(*secrets.WaitError))
	if a.node == nil || !waits || a.failed == a.node.Desired ||
		a.outage.MarkUnreachable(a.Log, "") < unreadReportAfter {
		return nil
	}
	setStatus(a, v1alpha1.StateWorking, err.Error())
	publishStatus(a)
	return a.reportState(ctx, v1alpha1.StateWorking, err.Error())
}

// errResync reports that something has changed and Sync has to reconcile again at once.
var errResync = errors.New("sync again")

// refusedError is the error for a config that a running node cannot apply.
type refusedError struct {
	// config is the text of Task.ConfigText about the config.
	config   string
	refusals []disruption.Refusal
}

// Error names the config and lists the refusals.
func (e *refusedError) Error() string {
	return fmt.Sprintf("the node refused %s, and nothing was changed: %s", e.config, e.problem())
}

// problem lists the refusals, each with its field.
func (e *refusedError) problem() string {
	var parts []string
	for _, r := range e.refusals {
		parts = append(parts, strings.TrimLeft(r.Field+": "+r.Why, ": "))
	}
	return strings.Join(parts, "; ")
}

// missingConfigError is the error for a desired config that is not on the cluster.
type missingConfigError struct {
	config string
	cause  error
}

// Error names the config.
func (e *missingConfigError) Error() string {
	return fmt.Sprintf("fetching the desired config %s: %v; see kubectl get machineconfig %s", e.config, e.cause,
		v1alpha1.ConfigName(e.config))
}

// Unwrap returns the API server's answer.
func (e *missingConfigError) Unwrap() error { return e.cause }

// unreadConfigError is the error for a desired config that the node cannot read from any server now.
type unreadConfigError struct {
	config string
	cause  error
}

// Error names the config and why it cannot be read.
func (e *unreadConfigError) Error() string {
	return fmt.Sprintf("waiting for the config %s: %v", e.config, e.cause)
}

// Unwrap returns the reason why the config cannot be read.
func (e *unreadConfigError) Unwrap() error { return e.cause }

// rejectedError is a final rejection as an error.
type rejectedError struct{ state.Rejection }

// Error returns the reason of the rejection.
func (e *rejectedError) Error() string { return e.Why }

// driftedError is the error for a machine that differs from its config.
type driftedError struct{ error }

// Unwrap returns the reason.
func (e *driftedError) Unwrap() error { return e.error }

// reportBlocked reports a state that stays until a user or the controller acts. reportBlocked logs the state when the
// Node does not have it yet.
func (a *Agent) reportBlocked(ctx context.Context, state string, why error) error {
	a.outage.MarkReachable(a.Log)
	setStatus(a, state, why.Error())
	publishStatus(a)
	if a.Metrics != nil {
		a.Metrics.State(state, v1alpha1.TruncateReason(why.Error()))
	}
	node, err := a.Cluster.Node(ctx)
	reportFailure(ctx, a, node.Desired, why)
	if err == nil && node.State == state && node.Reason == v1alpha1.TruncateReason(why.Error()) {
		return nil
	}
	a.Log.Warn(strings.ToLower(state), "why", why.Error())
	if state == v1alpha1.StateUnreconcilable {
		a.event(report.EventFailedToReconcile, "%s", why.Error())
	}
	return a.reportState(ctx, state, why.Error())
}

// reportState reports the state and the reason, if they differ from those of the Node.
func (c Config) reportState(ctx context.Context, state, reason string) error {
	reason = v1alpha1.TruncateReason(reason)
	if c.Metrics != nil {
		c.Metrics.State(state, reason)
	}
	want := map[string]string{
		v1alpha1.StateAnnotation: state, v1alpha1.ReasonAnnotation: reason,
		v1alpha1.PostConfigActionAnnotation: "",
	}
	if state != v1alpha1.StateDegraded && state != v1alpha1.StateUnreconcilable {
		want[v1alpha1.FailureAnnotation] = ""
	}
	if err := c.reportChanges(ctx, want); err != nil {
		return fmt.Errorf("reporting state %s: %w", state, err)
	}
	return nil
}

// reportChanges reports the annotations that the Node does not have yet.
func (c Config) reportChanges(ctx context.Context, want map[string]string) error {
	node, err := c.Cluster.Node(ctx)
	if err != nil {
		return err
	}
	changes := node.MissingChanges(want)
	if len(changes) == 0 {
		return nil
	}
	return c.Cluster.SetAnnotations(ctx, changes)
}

// postpone drops the error of a report that did not reach the API server, because a later Sync derives the report from
// the state on disk.
func (c Config) postpone(err error) error {
	if errors.Is(err, report.ErrUnreachable) {
		c.Log.Debug("status update postponed: the API server is unreachable", "err", err)
		return nil
	}
	return err
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

// publishRollback publishes that the machine reboots to roll back.
func publishRollback(a *Agent, end apply.Applied, why string) {
	a.enter(report.Rebooting)
	a.status.Planned, a.status.RollingBack = true, true
	a.status.Node.Desired, a.status.Node.Current = cmp.Or(a.status.Node.Desired, end.To), end.From
	setStatus(a, v1alpha1.StateDegraded, why)
	publishStatus(a)
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

// partialRollbackError returns the error of a rollback that failed: the machine is between two configs.
func partialRollbackError(end apply.Applied) error {
	return &unfinishedError{end.To, fmt.Errorf("rolling back from %s to %s: %w; the node has parts of both configs, "+
		"and the daemon retries the rollback: fix what blocks it", end.To, report.RollbackTarget(end.From, end.To),
		end.Why)}
}
