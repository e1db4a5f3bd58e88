package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/mcd/report"
)

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

// requestUncordon requests from the controller the uncordon of a node that was drained for an update. requestUncordon
// returns nil once the controller has acknowledged the uncordon, or if the node was not drained.
func requestUncordon(ctx context.Context, a *Agent, node report.Node) error {
	verb, _, _ := strings.Cut(node.DesiredDrain, "-")
	want := v1alpha1.UncordonVerb + "-" + v1alpha1.ConfigName(node.Desired)
	switch {
	case verb == v1alpha1.DrainVerb || verb == v1alpha1.UncordonVerb && node.DesiredDrain != want &&
		node.DesiredDrain != node.LastAppliedDrain:
		a.Log.Info("requesting the uncordon", "config", node.Desired)
		a.waiting.Elapsed(want, time.Time{})
		if err := a.reportChanges(ctx, map[string]string{v1alpha1.DesiredDrainAnnotation: want}); err != nil {
			return fmt.Errorf("requesting the uncordon: %w", err)
		}
		return errWaiting
	case verb == v1alpha1.UncordonVerb && node.DesiredDrain != node.LastAppliedDrain:
		if a.waiting.Elapsed(want, time.Time{}) > uncordonLimit {
			return fmt.Errorf("the node is in %s and %w within %s: check that machine-config-controller runs, and its "+
				"log for this node", node.Desired, errNotUncordoned, uncordonLimit)
		}
		return errWaiting
	}
	return nil
}
