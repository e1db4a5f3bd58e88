package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// updateError is an update that failed.
type updateError struct {
	// about names the config and its requester.
	about string
	// problem says what failed, and what the daemon does next.
	problem error
	// lasting is a text about the problem that stays the same while the problem lasts. lasting is empty if the text of
	// problem itself stays the same.
	lasting string
}

// Error names the config, and what failed.
func (e *updateError) Error() string { return fmt.Sprintf("updating to %s: %v", e.about, e.problem) }

// Unwrap returns what failed.
func (e *updateError) Unwrap() error { return e.problem }

// blockedError is the error for an update that the machine would stop half-way, or that it stopped before the first
// change.
type blockedError struct {
	blockers []host.Blocker
	// stopped is the error of an update that has started, which has no blockers; otherwise nil.
	stopped error
}

// Error lists the blockers, each with its path.
func (e *blockedError) Error() string {
	if e.stopped != nil {
		return fmt.Sprintf("%v; nothing has changed yet: see df and mount on the node", e.stopped)
	}
	parts := []string{"nothing has changed yet"}
	for _, b := range e.blockers {
		parts = append(parts, b.Path+": "+b.String())
	}
	return strings.Join(parts, "; ")
}

// Unwrap returns the error of an update that has started.
func (e *blockedError) Unwrap() error { return e.stopped }

// rolledBackError is the error for an update whose steps were rolled back.
type rolledBackError struct{ error }

// Unwrap returns what failed.
func (e *rolledBackError) Unwrap() error { return e.error }

// unfinishedError is the error for an update that has started, and that the daemon could neither finish nor roll back.
type unfinishedError struct {
	// config is the config of the update, which may no longer be the desired one.
	config string
	error
}

// Unwrap returns the failure.
func (e *unfinishedError) Unwrap() error { return e.error }

// failureOf returns the structured form of the reason why the node failed a config. The parameter phase is where the
// failure left the update.
func failureOf(config string, phase report.Phase, why error) v1alpha1.Failure {
	f := v1alpha1.Failure{
		Config: config, Cause: v1alpha1.FailureApply, Phase: string(phase),
		Problem: v1alpha1.TruncateReason(problemOf(why)),
	}
	if phase == report.Blocked {
		f.Cause = v1alpha1.FailureBlocked
	}
	var of *unfinishedError
	if errors.As(why, &of) {
		f.Config = of.config
	}
	f.Config, f.Secrets = v1alpha1.SplitConfigAt(f.Config)
	var refused *refusedError
	var rejected *rejectedError
	var drifted *driftedError
	var missing *missingConfigError
	var unread *unreadConfigError
	var path *fs.PathError
	var unsafe *host.UnsafePathError
	var blocked *blockedError
	switch {
	case errors.As(why, &refused):
		f.Cause = v1alpha1.FailureRefused
		if !slices.ContainsFunc(refused.refusals, func(r disruption.Refusal) bool { return r.Check == "" }) {
			f.Cause = v1alpha1.FailureHost
		}
		if !slices.ContainsFunc(refused.refusals,
			func(r disruption.Refusal) bool { return r.Check != disruption.CheckDisk }) {
			f.Cause = v1alpha1.FailureDiskFull
		}
	case errors.As(why, &rejected):
		f.Cause = v1alpha1.FailureRejected
	case errors.As(why, &drifted), errors.As(why, new(*drift.FoundError)): // After an update, or before one.
		f.Cause = v1alpha1.FailureDrift
	case errors.As(why, &missing):
		f.Cause = v1alpha1.FailureNoConfig
	case errors.As(why, &unread):
		f.Cause = v1alpha1.FailureNoAccess
	case errors.As(why, &unsafe):
		f.Cause, f.Path = v1alpha1.FailureUnsafePath, unsafe.Path
	case isDiskFull(why):
		f.Cause = v1alpha1.FailureDiskFull
	case errors.As(why, &blocked):
		f.Cause = v1alpha1.FailureBlocked
	case errors.Is(why, errDrainStuck):
		f.Cause = v1alpha1.FailureDrain
	case errors.Is(why, errNotUncordoned):
		f.Cause = v1alpha1.FailureUncordon
	}
	if blocked != nil && len(blocked.blockers) > 0 {
		first := blocked.blockers[0]
		if f.Path = first.Path; first.Kind == host.Full || first.Kind == host.NoInodes {
			f.Cause = v1alpha1.FailureDiskFull
		}
	}
	if errors.As(why, &path) {
		f.Path = path.Path
	}
	return f
}

// problemOf returns only the problem, without the config, its commit and the advice. problemOf returns "" for errors of
// other types.
func problemOf(why error) string {
	var update *updateError
	var refused *refusedError
	var rejected *rejectedError
	switch {
	case errors.As(why, &update):
		return cmp.Or(update.lasting, update.problem.Error())
	case errors.As(why, &refused):
		return refused.problem()
	case errors.As(why, &rejected):
		return rejected.Problem
	}
	return ""
}

// isDiskFull reports whether a file system had no space left.
func isDiskFull(why error) bool {
	return errors.Is(why, syscall.ENOSPC) || errors.Is(why, syscall.EDQUOT)
}

// reportFailure reports the structured cause of a failure before the state, so that the controller knows the cause when
// the state changes. reportFailure uses a separate write, because an admission policy older than the daemon may reject
// it. If the Node already has this failure, reportFailure writes again only for a new text or for another retry
// request.
func reportFailure(ctx context.Context, a *Agent, config string, why error) {
	node, err := a.Cluster.Node(ctx)
	if config == "" || err != nil {
		return // The caller cannot report the state either.
	}
	f := failureOf(config, a.Phase(), why)
	was, err := v1alpha1.ParseFailure(node.Failure)
	// The failure counts as the same even if its text differs.
	same := err == nil && was.Config == f.Config && was.Secrets == f.Secrets && was.Cause == f.Cause &&
		was.Phase == f.Phase && was.Path == f.Path
	f.Since = metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	if same {
		f.Since, f.Retry = was.Since, was.Retry
	}
	// The retry request is that at the start of the attempt, because the attempt does not answer a later request.
	if a.node != nil && !a.node.Retry.IsZero() {
		f.Retry = &metav1.Time{Time: a.node.Retry}
	}
	if same && f.Retry.Equal(was.Retry) && f.Problem == was.Problem {
		return
	}
	if err := a.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.FailureAnnotation: f.String()}); err != nil {
		a.Log.Debug("the cause of the failure is not reported", "err", err)
	}
}

// errDrainStuck reports that a drain takes longer than drainLimit.
var errDrainStuck = errors.New("the node is not drained")

// requestDrain requests from the controller a drain of the node for a config. requestDrain returns nil once the
// controller has acknowledged the drain, and the node is still cordoned. The parameter used is the request of the drain
// that an earlier attempt to apply the config used. Pods may have come since, so another attempt needs another drain.
func requestDrain(ctx context.Context, a *Agent, node report.Node, config, used string) error {
	r, first := drainFor(node, used)
	want := r.String()
	if node.DesiredDrain == want && node.LastAppliedDrain == want {
		a.waiting = SyncRequest{}
		return nil
	}
	began := node.Drain.Started
	if node.DesiredDrain != want {
		a.Log.Info("requesting a drain", "config", node.Desired)
		if first {
			a.event(report.EventDrain, "draining the node for %s", config)
		}
		if err := a.reportChanges(ctx, map[string]string{v1alpha1.DesiredDrainAnnotation: want}); err != nil {
			return fmt.Errorf("requesting a drain: %w", err)
		}
		began = time.Time{}
	}
	if waited := a.waiting.Elapsed(want, began); waited > drainLimit {
		waits := cmp.Or(node.Drain.Status, "machine-config-controller reports no progress: check that it runs")
		stuck := fmt.Errorf("%w after %s: %s; the update continues when the pods have ended; see kubectl get pdb -A, "+
			"or delete the pods that remain", errDrainStuck, waited.Truncate(10*time.Minute), waits)
		return &updateError{about: config, problem: stuck, lasting: fmt.Sprintf("%v: %s", errDrainStuck, waits)}
	}
	return errWaiting
}

// drainFor returns the request of the drain that the desired config needs, and whether it is the first for the config.
// An acknowledged drain that somebody undid by uncordoning the node, even if the node is cordoned again, or that an
// attempt has used, does not count.
func drainFor(node report.Node, used string) (r v1alpha1.DrainRequest, first bool) {
	want := v1alpha1.DrainRequest{Verb: v1alpha1.DrainVerb, Config: v1alpha1.ConfigName(node.Desired)}
	asked, ok := v1alpha1.ParseDrainRequest(node.DesiredDrain)
	if !ok || asked.Verb != want.Verb || asked.Config != want.Config {
		return want, true
	}
	acknowledged := node.LastAppliedDrain == node.DesiredDrain
	if acknowledged && (!node.Unschedulable || node.Recordoned || node.DesiredDrain == used) ||
		node.LastAppliedDrain == asked.Undone().String() {
		asked.Attempt++
	}
	return asked, false
}

// errUndrained reports that somebody uncordoned the node after its drain, so that it must not reboot.
var errUndrained = errors.New("somebody uncordoned the node after its drain, so it is drained again before it reboots")

// mayReboot reports whether a node that was drained for an update still is. If it is not, mayReboot requests another
// drain. While the API server does not answer, the last acknowledgement counts: a machine may have to reboot so that it
// answers again.
func (a *Agent) mayReboot(ctx context.Context) error {
	node, err := a.Cluster.Node(ctx)
	if errors.Is(err, report.ErrUnreachable) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading whether the node is still drained: %w", err)
	}
	last, _ := v1alpha1.ParseDrainRequest(node.LastAppliedDrain)
	if last.Verb == v1alpha1.DrainVerb && node.DesiredDrain == node.LastAppliedDrain && node.Unschedulable &&
		!node.Recordoned {
		return nil // for whichever config: the desired one may be another by now
	}
	a.event(report.EventDrain, "not rebooting: %v", errUndrained)
	if err := requestDrain(ctx, a, node, node.Desired, ""); err != nil && !errors.Is(err, errWaiting) {
		return errors.Join(errUndrained, err)
	}
	return errUndrained
}

// errNotUncordoned reports that the controller does not uncordon the node.
var errNotUncordoned = errors.New("was not uncordoned")
