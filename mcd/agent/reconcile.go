package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// reconcile reads the journal, the disk and the Node and takes the next step.
func (a *Agent) reconcile(ctx context.Context) (desired string, err error) {
	a.check.StopWith(ctx)
	a.node = nil
	a.status = report.Status{NodeName: a.Node}
	recoverErr := recoverUpdate(ctx, a) // Recovery comes first, because it works without the API server.
	if !errors.As(recoverErr, new(*rebootUnknownError)) {
		a.unanswered = SyncRequest{}
	}
	if recoverErr == nil && !a.started {
		recoverErr = a.start(ctx)
	}
	if errors.Is(recoverErr, ErrRebooting) {
		return "", recoverErr
	}
	node, err := a.Cluster.Node(ctx)
	if err == nil {
		a.node, a.status.Node = &node, node
	}
	switch {
	case err != nil && recoverErr != nil:
		return "", errors.Join(recoverErr, fmt.Errorf("reading the Node: %w", err))
	case recoverErr != nil:
		return node.Desired, recoverErr
	case errors.Is(err, report.ErrUnreachable):
		return a.continueOffline(ctx, fmt.Errorf("reading the Node: %w", err))
	case err != nil:
		return "", fmt.Errorf("reading the Node: %w", err)
	}
	if err := a.reportLogin(ctx, node); err != nil { // An error in reporting the login does not delay an update.
		a.Log.Warn("reporting a login", "err", err)
	}
	if err := reportTrust(ctx, a, node); err != nil {
		a.Log.Warn("reporting what the node trusts", "err", err)
	}
	if reported, err := a.reportInitialAnnotations(ctx, node); err != nil {
		return node.Desired, err
	} else if reported {
		return node.Desired, errResync
	}
	if node.Desired == "" {
		setStatus(a, v1alpha1.StateDone, "")
		publishStatus(a)
		return "", a.reportReady(ctx, node)
	}
	return node.Desired, a.reconcileDesired(ctx, node)
}

// reconcileDesired updates the node to the desired config, or confirms that it is in force.
func (a *Agent) reconcileDesired(ctx context.Context, node report.Node) error {
	mc, err := apply.LoadRecord(a.Host.Files)
	if err != nil {
		return err
	}
	_, forced, err := a.files.ForceFile()
	if err != nil {
		return err
	}
	v, err := currentRejection(ctx, a, node, forced)
	if err != nil {
		return err
	}
	if err := a.files.RemoveOutdatedTask(ctx, node.Desired); err != nil {
		return err
	}
	inForce, err := isInForce(a, node, mc)
	if err != nil {
		return err
	}
	a.status.InForce = inForce && !forced
	switch {
	case inForce && !forced:
		if err := a.writeAfterBoot(ctx, node); err != nil {
			return err
		}
		return a.confirm(ctx, node)
	case v.IsFinal():
		if err := a.files.ConfirmRejection(ctx, *v); err != nil {
			return err
		}
		return &rejectedError{*v}
	}
	if !a.compared && !inForce && mc != nil {
		a.event(report.EventBootResync, "the daemon has started and updates from %s to %s", plan.NameOf(*mc),
			node.Desired)
	}
	a.compared = true
	return a.update(ctx, node)
}

// currentRejection returns the stored rejection; nil for none. currentRejection removes the rejection if its config is
// no longer desired, or if the force file or a retry request lifts it.
func currentRejection(ctx context.Context, a *Agent, node report.Node, forced bool) (*state.Rejection, error) {
	v, err := a.files.Rejection()
	if err != nil || v == nil {
		return nil, err
	}
	retried := v.IsRetryRequested(node.Retry)
	if v.Config == node.Desired && !forced && !retried {
		return v, nil
	}
	a.Log.Info("removing the rejection", "config", v.Config, "desired", node.Desired, "forced", forced, "asked",
		retried)
	return nil, a.files.Remove(ctx, state.RejectionPath)
}

// isInForce reports whether the machine runs the desired config. The record decides; without a record, the Node
// decides.
func isInForce(a *Agent, node report.Node, record *mcfgv1.MachineConfig) (bool, error) {
	if record != nil {
		return plan.NameOf(*record) == node.Desired, nil
	}
	if node.Current != node.Desired {
		return false, nil
	}
	withheld, err := hasWithheldSecrets(a.Config, node.Current)
	return !withheld, err
}

// outageText is logged when the API server stops giving usable answers.
func outageText(err error) string {
	why := report.ErrUnreachable.Error()
	if errors.As(err, new(*report.NoAnswerError)) {
		why = "the API server does not answer"
	} else if broken := new(report.NotConnectedError); errors.As(err, &broken) {
		why = broken.Error()
	}
	return why + "; continuing with what is on disk"
}

// continueOffline continues while the API server does not answer: it finishes an update that has started, from the
// task on disk, and scans for drift. When the API server answers again, the reports follow from the state on disk.
func (a *Agent) continueOffline(ctx context.Context, down error) (desired string, err error) {
	missing := a.outage.MarkUnreachable(a.Log, outageText(down), "err", down)
	t, err := a.files.Task("")
	if err != nil {
		return "", errors.Join(err, down)
	}
	v, err := a.files.Rejection()
	if err != nil {
		return "", errors.Join(err, down)
	}
	if v != nil && v.Unconfirmed && missing >= a.Health.RebootLimit() {
		a.Log.Warn("the API server is unreachable with the old config too; removing the rejection of the new one",
			"config", v.Config)
		return "", errors.Join(a.files.Remove(ctx, state.RejectionPath, state.TaskPath), down)
	}
	mc, err := apply.LoadRecord(a.Host.Files)
	switch {
	case err != nil:
		return "", errors.Join(err, down)
	case t != nil && !v.IsFinal() && (mc == nil || plan.NameOf(*mc) != plan.NameOf(t.Config)):
		a.status.Node = t.Node
		if err := a.update(ctx, t.Node); err != nil {
			return plan.NameOf(t.Config), err
		}
	case mc != nil:
		if err := a.checkDrift(ctx, report.Node{Current: plan.NameOf(*mc), Desired: plan.NameOf(*mc)}); err != nil {
			a.Log.Debug("the machine differs from its config; the report follows when the API server answers", "config",
				plan.NameOf(*mc), "why", err)
		}
	}
	return "", down
}

// confirm reports that the desired config is in force, after the node was uncordoned.
func (a *Agent) confirm(ctx context.Context, node report.Node) error {
	a.enter(report.Confirming)
	if err := writeFirstRecord(ctx, a, node.Desired); err != nil {
		return err
	}
	keepContents(ctx, a, node)
	if err := a.checkDrift(ctx, node); errors.Is(err, report.ErrUnreachable) {
		return err
	} else if err != nil {
		if !a.compared {
			a.event(report.EventDiskStateFailed, "%v", err)
		}
		a.compared = true
		return &driftedError{err}
	}
	a.compared = true
	if err := requestUncordon(ctx, a, node); err != nil {
		if errors.Is(err, errWaiting) {
			publishStatus(a)
		}
		return err
	}
	if err := clearWithheld(ctx, a.Config); err != nil {
		return err
	}
	done := report.CurrentAnnotations(node.Desired)
	maps.Copy(done, map[string]string{
		v1alpha1.StateAnnotation: v1alpha1.StateDone, v1alpha1.ReasonAnnotation: "",
		v1alpha1.PostConfigActionAnnotation: "", v1alpha1.FailureAnnotation: "",
	})
	if err := a.reportChanges(ctx, done); err != nil {
		return fmt.Errorf("reporting the config in force: %w", err)
	}
	if a.Metrics != nil {
		a.Metrics.State(v1alpha1.StateDone, "")
	}
	if node.State != v1alpha1.StateDone || node.Current != node.Desired {
		a.Log.Info("done", "config", node.Desired)
		a.event(report.EventNodeDone, "the node is in %s", node.Desired)
	}
	a.failed, a.waiting = "", SyncRequest{}
	a.enter(report.Idle)
	a.status.Node.Current = node.Desired
	setStatus(a, v1alpha1.StateDone, "")
	publishStatus(a)
	followNext(ctx, a, node)
	return errors.Join(a.secrets().Confirm(ctx, node.Desired), a.files.Remove(ctx, state.RejectionPath,
		state.TaskPath))
}
