package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	"github.com/bunsen-os/bunsen/mcd/state"
)

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
