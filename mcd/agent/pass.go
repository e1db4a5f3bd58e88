package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/progress"
	"github.com/bunsen-os/bunsen/mcd/protocol"
	"github.com/bunsen-os/bunsen/mcd/record"
)

// pass looks at everything and does the one thing that is next.
func (a *Agent) pass(ctx context.Context) (desired string, err error) {
	a.gate.stop, a.told = ctx, nil
	a.at = progress.Place{Node: a.Node, Phase: a.at.Phase}
	unsettled := aftermath{a}.settle(ctx) // needs no cluster, so it comes first
	if unsettled == nil && !a.begun {
		unsettled = a.begin(ctx)
	}
	if errors.Is(unsettled, ErrRebooting) {
		return "", unsettled
	}
	node, err := a.Cluster.Assignment(ctx)
	if err == nil {
		a.told, a.at.Told = &node, node
	}
	switch {
	case err != nil && unsettled != nil:
		return "", errors.Join(unsettled, fmt.Errorf("reading the Node: %w", err))
	case unsettled != nil:
		return node.Desired, unsettled
	case errors.Is(err, protocol.ErrUnreachable):
		return a.alone(ctx, fmt.Errorf("reading the Node: %w", err))
	case err != nil:
		return "", fmt.Errorf("reading the Node: %w", err)
	}
	if err := a.noteLogins(ctx, node); err != nil { // no reason to keep an update waiting
		a.Log.Warn("telling of a login", "err", err)
	}
	if told, err := a.seed(ctx, node); err != nil {
		return node.Desired, err
	} else if told {
		return node.Desired, errAgain
	}
	if node.Desired == "" {
		sign{a}.says(v1alpha1.StateDone, "")
		sign{a}.put()
		return "", a.introduce(ctx, node)
	}
	return node.Desired, a.turn(ctx, node)
}

// turn goes to what is desired, or sees that it is in force.
func (a *Agent) turn(ctx context.Context, node protocol.Assignment) error {
	mc, err := record.In(a.Host.Files)
	if err != nil {
		return err
	}
	_, forced, err := a.memory.force()
	if err != nil {
		return err
	}
	v, err := a.memory.verdict()
	if err != nil {
		return err
	}
	if v != nil && (v.Config != node.Desired || forced || v.lifted(node.Retry)) {
		a.Log.Info("a verdict is lifted", "config", v.Config, "desired", node.Desired, "forced", forced, "asked", v.lifted(node.Retry))
		if err := a.memory.forget(ctx, VerdictPath); err != nil {
			return err
		}
		v = nil
	}
	if err := a.memory.outdate(ctx, node.Desired); err != nil {
		return err
	}
	inForce := mc != nil && mc.Name == node.Desired
	if mc == nil && node.Current == node.Desired {
		lacks, err := newborn{a.Config}.lacks(node.Current)
		if err != nil {
			return err
		}
		inForce = !lacks
	}
	a.at.InForce = inForce && !forced
	switch {
	case inForce && !forced:
		return a.confirm(ctx, node)
	case v.stands():
		return a.memory.stand(ctx, *v)
	}
	if !a.seen && !inForce && mc != nil {
		a.event(protocol.EventBootResync, "the daemon has started, and goes from %s to %s", mc.Name, node.Desired)
	}
	a.seen = true
	return a.update(ctx, node)
}

// alone goes on while the API server does not answer: an update under way is finished, from what was kept of it; drift is
// watched. What has to be told is found again on disk when it answers.
func (a *Agent) alone(ctx context.Context, down error) (desired string, err error) {
	missing := a.silence.missing(a.Log)
	t, err := a.memory.task("")
	if err != nil {
		return "", errors.Join(err, down)
	}
	v, err := a.memory.verdict()
	if err != nil {
		return "", errors.Join(err, down)
	}
	if v != nil && v.Doubtful && missing >= a.Health.afterReboot() {
		a.Log.Warn("the API server is not reached with the old config either, so the new one is not at fault", "config", v.Config)
		return "", errors.Join(a.memory.forget(ctx, VerdictPath, TaskPath), down)
	}
	mc, err := record.In(a.Host.Files)
	switch {
	case err != nil:
		return "", errors.Join(err, down)
	case t != nil && !v.stands() && (mc == nil || mc.Name != t.Config.Name):
		a.at.Told = t.Node
		if err := a.update(ctx, t.Node); err != nil {
			return t.Config.Name, err
		}
	case mc != nil:
		if err := a.checkDrift(ctx, protocol.Assignment{Current: mc.Name, Desired: mc.Name}); err != nil {
			a.Log.Debug("not as its config says; to be told", "config", mc.Name, "why", err)
		}
	}
	return "", down
}

// confirm tells that the desired config is in force, after the node was opened again.
func (a *Agent) confirm(ctx context.Context, node protocol.Assignment) error {
	a.enter(progress.Confirming)
	if err := (draft{a}).keepRecord(ctx, node.Desired); err != nil {
		return err
	}
	if err := a.checkDrift(ctx, node); errors.Is(err, protocol.ErrUnreachable) {
		return err
	} else if err != nil {
		if !a.seen {
			a.event(protocol.EventDiskStateFailed, "%v", err)
		}
		a.seen = true
		return &driftedError{err}
	}
	a.seen = true
	if err := (doors{a.Config, &a.asked}).open(ctx, node); err != nil {
		if errors.Is(err, errLater) {
			sign{a}.put()
		}
		return err
	}
	if err := (newborn{a.Config}).grown(ctx); err != nil {
		return err
	}
	if err := a.annotate(ctx, map[string]string{
		v1alpha1.CurrentConfigAnnotation: node.Desired, v1alpha1.StateAnnotation: v1alpha1.StateDone,
		v1alpha1.ReasonAnnotation: "", v1alpha1.PostConfigActionAnnotation: "", v1alpha1.FailureAnnotation: "",
	}); err != nil {
		return fmt.Errorf("reporting the config in force: %w", err)
	}
	if a.Metrics != nil {
		a.Metrics.State(v1alpha1.StateDone, "")
	}
	if node.State != v1alpha1.StateDone || node.Current != node.Desired {
		a.Log.Info("done", "config", node.Desired)
		a.event(protocol.EventNodeDone, "the node is in %s", node.Desired)
	}
	a.failed, a.asked = "", waiting{}
	a.enter(progress.Idle)
	a.at.Told.Current = node.Desired
	sign{a}.says(v1alpha1.StateDone, "")
	sign{a}.put()
	return a.memory.forget(ctx, VerdictPath, TaskPath)
}
