package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// doors close the node before an update and open it after. Others do it; the protocol asks them.
type doors struct {
	Config
	asked *waiting
}

// errStuck tells that a drain takes too long.
var errStuck = errors.New("the node is not drained")

// drain asks for the node to be drained for a config; nil once that is acknowledged.
func (d doors) drain(ctx context.Context, node protocol.Assignment, config string) error {
	want := v1alpha1.DrainVerb + "-" + node.Desired
	if node.DesiredDrain == want && node.LastAppliedDrain == want {
		*d.asked = waiting{}
		return nil
	}
	began := node.Drain.Started
	if node.DesiredDrain != want {
		d.Log.Info("asking for a drain", "config", node.Desired)
		d.event(protocol.EventDrain, "draining the node for %s", config)
		if err := d.annotate(ctx, map[string]string{v1alpha1.DesiredDrainAnnotation: want}); err != nil {
			return fmt.Errorf("asking for a drain: %w", err)
		}
		began = time.Time{}
	}
	if waited := d.asked.from(want, began); waited > drainLimit {
		waits := cmp.Or(node.Drain.Status, "machine-config-controller says nothing about it: see whether it runs")
		return fmt.Errorf("updating to %s: %w after %s: %s; it goes on by itself when the pods are gone; see kubectl get pdb -A, or delete what does not go", config, errStuck, waited.Truncate(10*time.Minute), waits)
	}
	return errLater
}

// open asks for the node to be opened again, where it was closed for an update; nil once it is.
func (d doors) open(ctx context.Context, node protocol.Assignment) error {
	verb, _, _ := strings.Cut(node.DesiredDrain, "-")
	want := v1alpha1.UncordonVerb + "-" + node.Desired
	switch {
	case verb == v1alpha1.DrainVerb || verb == v1alpha1.UncordonVerb && node.DesiredDrain != want && node.DesiredDrain != node.LastAppliedDrain:
		d.Log.Info("asking to open the node again", "config", node.Desired)
		d.event(protocol.EventUncordon, "asking to open the node, which is in %s", node.Desired)
		d.asked.from(want, time.Time{})
		if err := d.annotate(ctx, map[string]string{v1alpha1.DesiredDrainAnnotation: want}); err != nil {
			return fmt.Errorf("asking to open the node: %w", err)
		}
		return errLater
	case verb == v1alpha1.UncordonVerb && node.DesiredDrain != node.LastAppliedDrain:
		if d.asked.from(want, time.Time{}) > openLimit {
			return fmt.Errorf("the node is in %s and was not opened again within %s: see whether machine-config-controller runs, and its log for this node", node.Desired, openLimit)
		}
		return errLater
	}
	return nil
}
