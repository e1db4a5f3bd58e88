package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// drains requests drains and uncordons of the node from the controller, which acknowledges them on the Node.
type drains struct {
	cluster Cluster
	report  *nodeReport
	log     *slog.Logger
	// waiting is the request that the controller has not acknowledged yet.
	waiting request
}

// request is something that the agent waits for.
type request struct {
	// what is the requested action. since is the start of the request.
	what  string
	since time.Time
}

// elapsed returns how long the agent has waited for a request. For a different request than before, the time starts at
// zero. The parameter began is when the controller started to act on the request; zero if unknown.
func (w *request) elapsed(what string, began time.Time) time.Duration {
	if w.what != what {
		*w = request{what, time.Now()}
	}
	if !began.IsZero() && began.Before(w.since) {
		w.since = began
	}
	return time.Since(w.since)
}

// drain requests a drain of the node for its desired config. It proceeds once the controller has acknowledged the
// drain, and the node is still cordoned. The parameter about names the config and its requester; used is the request of
// the drain that an earlier attempt to apply the config used. Pods may have come since, so another attempt needs
// another drain.
func (d *drains) drain(ctx context.Context, node report.Node, about, used string) Outcome {
	r, first := drainFor(node, used)
	want := r.String()
	if node.DesiredDrain == want && node.LastAppliedDrain == want {
		d.waiting = request{}
		return Outcome{}
	}
	began := node.Drain.Started
	if node.DesiredDrain != want {
		d.log.Info("requesting a drain", "config", node.Desired)
		if first {
			d.report.event(report.EventDrain, "draining the node for %s", about)
		}
		changes := map[string]string{v1alpha1.DesiredDrainAnnotation: want}
		if err := d.report.reportChanges(ctx, changes); err != nil {
			return outcomeOf(fmt.Errorf("requesting a drain: %w", err))
		}
		began = time.Time{}
	}
	waited := d.waiting.elapsed(want, began)
	if waited <= drainLimit {
		return Outcome{kind: waiting}
	}
	const stuck = "the node is not drained"
	waits := cmp.Or(node.Drain.Status, "machine-config-controller reports no progress: check that it runs")
	o := failedUpdate(undrained, about, fmt.Errorf("%s after %s: %s; the update continues when the pods have ended; "+
		"see kubectl get pdb -A, or delete the pods that remain", stuck, waited.Truncate(10*time.Minute), waits))
	o.failure.Cause, o.failure.Problem = v1alpha1.FailureDrain, stuck+": "+waits // This stays the same while it lasts.
	return o
}

// drainFor returns the request of the drain that the desired config needs, and whether it is the first for the config.
// An acknowledged drain that somebody undid by uncordoning the node, even if the node is cordoned again, or that an
// attempt has used, does not count.
func drainFor(node report.Node, used string) (r v1alpha1.DrainRequest, first bool) {
	want := v1alpha1.DrainRequest{Verb: v1alpha1.DrainVerb, Config: v1alpha1.ParseConfigVersion(node.Desired).Config}
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

// uncordon requests the uncordon of a node that was drained for an update. It proceeds once the controller has
// acknowledged the uncordon, or if the node was not drained.
func (d *drains) uncordon(ctx context.Context, node report.Node) Outcome {
	verb, _, _ := strings.Cut(node.DesiredDrain, "-")
	want := v1alpha1.UncordonVerb + "-" + v1alpha1.ParseConfigVersion(node.Desired).Config
	switch {
	case verb == v1alpha1.DrainVerb || verb == v1alpha1.UncordonVerb && node.DesiredDrain != want &&
		node.DesiredDrain != node.LastAppliedDrain:
		d.log.Info("requesting the uncordon", "config", node.Desired)
		d.waiting.elapsed(want, time.Time{})
		changes := map[string]string{v1alpha1.DesiredDrainAnnotation: want}
		if err := d.report.reportChanges(ctx, changes); err != nil {
			return outcomeOf(fmt.Errorf("requesting the uncordon: %w", err))
		}
		return Outcome{kind: waiting}
	case verb == v1alpha1.UncordonVerb && node.DesiredDrain != node.LastAppliedDrain:
		if d.waiting.elapsed(want, time.Time{}) > uncordonLimit {
			return outcomeOf(fmt.Errorf("the node is in %s and was not uncordoned within %s: check that "+
				"machine-config-controller runs, and its log for this node", node.Desired, uncordonLimit)).
				because(v1alpha1.FailureUncordon)
		}
		return Outcome{kind: waiting}
	}
	return Outcome{}
}

// uncordoned records that the node is not cordoned for an update any more.
func (d *drains) uncordoned() { d.waiting = request{} }

// undrainedError reports that somebody uncordoned the node after its drain, so that it must not reboot. It goes through
// the apply.Runner, which knows no drains.
type undrainedError struct {
	// request is the outcome of the request for another drain.
	request Outcome
}

// Error says what somebody did, and why another drain could not be requested.
func (e *undrainedError) Error() string {
	const text = "somebody uncordoned the node after its drain, so it is drained again before it reboots"
	if e.request.Err != nil {
		return text + "\n" + e.request.Err.Error()
	}
	return text
}

// Unwrap returns why another drain could not be requested; nil if it was.
func (e *undrainedError) Unwrap() error { return e.request.Err }

// mayReboot reports whether a node that was drained for an update still is. If it is not, mayReboot requests another
// drain. While the API server does not answer, the last acknowledgement counts: a machine may have to reboot so that it
// answers again.
func (d *drains) mayReboot(ctx context.Context) error {
	node, err := d.cluster.Node(ctx)
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
	again := &undrainedError{}
	d.report.event(report.EventDrain, "not rebooting: %v", again)
	again.request = d.drain(ctx, node, node.Desired, "")
	return again
}
