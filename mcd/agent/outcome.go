package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// kind says what happened, and with it what the loop does next.
type kind int

// The kinds of outcomes. After those up to drifted, the loop waits for a change of the Node or the machine; after the
// others, it also tries again by itself, with growing pauses.
const (
	// proceed: the next step follows. At the end of a sync, nothing is left to do.
	proceed kind = iota
	// again: something has changed, so the loop reads everything anew, at once.
	again
	// waiting: the controller has to act first. It then changes the Node.
	waiting
	// rebooting: the machine goes down, and the daemon ends.
	rebooting
	// refused: a running node cannot apply the config.
	refused
	// rejected: the machine has tried the config, and does not try it again.
	rejected
	// drifted: the machine differs from its config.
	drifted
	// unknownReboot: the answer to the request for a reboot is lost. The loop looks whether the machine goes down.
	unknownReboot
	// unfetched: files of the config cannot be downloaded. The node is not drained, and the old config stays.
	unfetched
	// blocked: something on the machine would stop the update, or has stopped it before its first change.
	blocked
	// undrained: the drain takes too long.
	undrained
	// rolledBack: a step or the health check failed, and the machine is in its old config.
	rolledBack
	// unfinished: the daemon could neither finish the update nor roll it back, and tries that again.
	unfinished
	// failed: anything else, such as a disk or an API server that cannot be read.
	failed
)

// Outcome is how a step or a whole sync ended. The zero outcome lets the next step follow.
type Outcome struct {
	kind kind
	// Desired is the desired config of the sync; "" if it is unknown, or if there is none.
	Desired string
	// Err is the reason, for the log and the Node; nil if nothing is left to do until the Node or the machine changes.
	Err error
	// failure has the cause, the config, the path and the problem, as far as they are known before the report.
	failure v1alpha1.Failure
	// refusals say why the node refuses the config.
	refusals []disruption.Refusal
	// unanswered is true if the API server gave no usable answer. This is a failure only after the time limit, and the
	// node says meanwhile that it waits, if waits is true.
	unanswered bool
	limit      time.Duration
	waits      bool
	// reported is true once the Node has the outcome.
	reported bool
}

// outcomeOf returns the outcome of an error that says by itself what happened; proceed for nil.
func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Outcome{}
	case errors.As(err, new(*fetch.SyncError)):
		return failing(unfetched, err)
	}
	return failing(failed, err)
}

// failing returns a failure of a kind.
func failing(k kind, err error) Outcome {
	o := Outcome{kind: k, Err: err, unanswered: errors.Is(err, report.ErrUnreachable), limit: outageLimit}
	if errors.As(err, new(*secrets.WaitError)) {
		o.limit, o.waits = math.MaxInt64, true
	}
	var found *drift.FoundError
	if errors.As(err, &found) {
		o.failure.Cause, o.failure.Problem = v1alpha1.FailureDrift, found.Problem
	}
	return o
}

// ends reports whether the sync ends here, without its further steps.
func (o Outcome) ends() bool { return o.kind != proceed }

// isUnread reports whether the loop tries again without a failure: a server gave no usable answer, to a question or to
// the report.
func (o Outcome) isUnread() bool { return o.unanswered || o.kind == unfetched }

// with adds an error to the outcome, such as that of the report about it.
func (o Outcome) with(err error) Outcome {
	o.Err = errors.Join(o.Err, err)
	o.unanswered = o.unanswered || errors.Is(err, report.ErrUnreachable)
	return o
}

// of returns the outcome as that of a sync for a desired config.
func (o Outcome) of(desired string) Outcome {
	o.Desired = desired
	return o
}

// because returns the outcome with a cause.
func (o Outcome) because(c v1alpha1.FailureCause) Outcome {
	o.failure.Cause = c
	return o
}

// phase returns the phase in which a failure leaves the update. The parameter now is the phase of the failure.
func (o Outcome) phase(now report.Phase, inForce bool) report.Phase {
	switch o.kind {
	case rolledBack:
		return report.RolledBack
	case unfinished:
		if slices.Contains([]report.Phase{report.Rebooting, report.Checking}, now) {
			return now
		}
		return report.Applying
	case undrained:
		return report.Draining
	case failed:
		if inForce {
			return report.Confirming
		}
	}
	return report.Blocked
}

// failureIn returns the structured form of the reason why the node failed a config. The phase is where the failure left
// the update.
func (o Outcome) failureIn(phase report.Phase) v1alpha1.Failure {
	f := o.failure
	f.Phase, f.Problem = string(phase), v1alpha1.TruncateReason(f.Problem)
	of := v1alpha1.ParseConfigVersion(cmp.Or(f.Config, o.Desired))
	f.Config, f.Secrets = of.Config, of.Secrets
	var path *fs.PathError
	var unsafe *host.UnsafePathError
	var stuck *undrainedError
	switch {
	case f.Cause != "":
	case errors.As(o.Err, &unsafe):
		f.Cause, f.Path = v1alpha1.FailureUnsafePath, unsafe.Path
	case errors.Is(o.Err, syscall.ENOSPC), errors.Is(o.Err, syscall.EDQUOT):
		f.Cause = v1alpha1.FailureDiskFull
	case errors.As(o.Err, &stuck) && stuck.request.kind == undrained:
		f.Cause = v1alpha1.FailureDrain
	case phase == report.Blocked:
		f.Cause = v1alpha1.FailureBlocked
	default:
		f.Cause = v1alpha1.FailureApply
	}
	if errors.As(o.Err, &path) {
		f.Path = path.Path
	}
	return f
}

// failedUpdate returns the outcome of an update that failed. The parameter about names the config and its requester;
// problem says what failed, and what the daemon does next.
func failedUpdate(k kind, about string, problem error) Outcome {
	o := failing(k, fmt.Errorf("updating to %s: %w", about, problem))
	o.failure.Problem = problem.Error()
	return o
}

// blockedBy returns the outcome of an update that the machine would stop half-way, with each blocker and its path.
func blockedBy(about string, blockers []host.Blocker) Outcome {
	parts := []string{"nothing has changed yet"}
	for _, b := range blockers {
		parts = append(parts, b.Path+": "+b.String())
	}
	o := failedUpdate(blocked, about, errors.New(strings.Join(parts, "; ")))
	first := blockers[0]
	o.failure.Cause, o.failure.Path = v1alpha1.FailureHost, first.Path
	of := slices.IndexFunc(blockers, host.Blocker.IsOfConfig)
	switch {
	case of >= 0:
		o.failure.Cause, o.failure.Path = v1alpha1.FailureBlocked, blockers[of].Path
	case first.Kind == host.Full, first.Kind == host.NoInodes:
		o.failure.Cause = v1alpha1.FailureDiskFull
	}
	return o
}

// refusedFor returns the outcome of a config that a running node cannot apply. The parameter about is the text of
// Task.ConfigText about the config.
func refusedFor(about string, refusals []disruption.Refusal) Outcome {
	var parts []string
	for _, r := range refusals {
		parts = append(parts, strings.TrimLeft(r.Field+": "+r.Why, ": "))
	}
	problem := strings.Join(parts, "; ")
	o := Outcome{kind: refused, refusals: refusals}
	o.Err = fmt.Errorf("the node refused %s, and nothing was changed: %s", about, problem)
	o.failure.Cause, o.failure.Problem = v1alpha1.FailureRefused, problem
	if !slices.ContainsFunc(refusals, func(r disruption.Refusal) bool { return r.Check == "" }) {
		o.failure.Cause = v1alpha1.FailureHost
	}
	if !slices.ContainsFunc(refusals, func(r disruption.Refusal) bool { return r.Check != disruption.CheckDisk }) {
		o.failure.Cause = v1alpha1.FailureDiskFull
	}
	return o
}

// rejectedBy returns the outcome of a config that the machine has rejected.
func rejectedBy(v state.Rejection) Outcome {
	o := Outcome{kind: rejected, Err: errors.New(v.Why)}
	o.failure.Cause, o.failure.Problem = v1alpha1.FailureRejected, v.Problem
	return o
}

// unfinishedUpdate returns the outcome of an update that has started, and that the daemon could neither finish nor roll
// back. Its config may no longer be the desired one.
func unfinishedUpdate(config string, err error) Outcome {
	o := failing(unfinished, err)
	o.failure.Config = config
	if stuck := new(undrainedError); errors.As(err, &stuck) {
		o.failure.Problem = stuck.request.failure.Problem
	}
	return o
}

// partialRollback returns the outcome of a rollback that failed: the machine is between two configs.
func partialRollback(end apply.Applied) Outcome {
	return unfinishedUpdate(end.To, fmt.Errorf("rolling back from %s to %s: %w; the node has parts of both configs, "+
		"and the daemon retries the rollback: fix what blocks it", end.To, report.RollbackTarget(end.From, end.To),
		end.Why))
}

// unknownHealth returns the outcome of a health check without a result. The usual reason is that the daemon was stopped
// during the check.
func unknownHealth(ctx context.Context, end apply.Applied) Outcome {
	if err := context.Cause(ctx); err != nil {
		return failing(failed, err)
	}
	return unfinishedUpdate(end.To, fmt.Errorf("checking whether the machine is healthy with %s: %w", end.To, end.Why))
}
