package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/agent/signals"
	"github.com/bunsen-os/bunsen/mcd/report"
)

// errDrainStuck reports that a drain takes longer than drainLimit.
var errDrainStuck = errors.New("the node is not drained")

// requestDrain requests from the controller a drain of the node for a config. requestDrain returns nil once the
// controller has acknowledged the drain.
func requestDrain(ctx context.Context, a *Agent, node report.Node, config string) error {
	want := v1alpha1.DrainVerb + "-" + v1alpha1.ConfigName(node.Desired)
	if node.DesiredDrain == want && node.LastAppliedDrain == want {
		a.waiting = signals.Request{}
		return nil
	}
	began := node.Drain.Started
	if node.DesiredDrain != want {
		a.Log.Info("requesting a drain", "config", node.Desired)
		a.event(report.EventDrain, "draining the node for %s", config)
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

// requestUncordon requests from the controller the uncordon of a node that was drained for an update. requestUncordon
// returns nil once the controller has acknowledged the uncordon, or if the node was not drained.
func requestUncordon(ctx context.Context, a *Agent, node report.Node) error {
	verb, _, _ := strings.Cut(node.DesiredDrain, "-")
	want := v1alpha1.UncordonVerb + "-" + v1alpha1.ConfigName(node.Desired)
	switch {
	case verb == v1alpha1.DrainVerb || verb == v1alpha1.UncordonVerb && node.DesiredDrain != want &&
		node.DesiredDrain != node.LastAppliedDrain:
		a.Log.Info("requesting the uncordon", "config", node.Desired)
		a.event(report.EventUncordon, "requesting the uncordon; the node is in %s", node.Desired)
		a.waiting.Elapsed(want, time.Time{})
		if err := a.reportChanges(ctx, map[string]string{v1alpha1.DesiredDrainAnnotation: want}); err != nil {
			return fmt.Errorf("requesting the uncordon: %w", err)
		}
		return errWaiting
	case verb == v1alpha1.UncordonVerb && node.DesiredDrain != node.LastAppliedDrain:
		if a.waiting.Elapsed(want, time.Time{}) > uncordonLimit {
			return fmt.Errorf("the node is in %s and was not uncordoned within %s: check that "+
				"machine-config-controller runs, and its log for this node", node.Desired, uncordonLimit)
		}
		return errWaiting
	}
	return nil
}
