package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
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

// reportTrust reports what the machine has of what its pools trust, if the Node does not have this report yet.
func reportTrust(ctx context.Context, a *Agent, node report.Node) error {
	if a.Trust == nil || node.Trust == a.Trust.Report() {
		return nil
	}
	return a.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.TrustReportAnnotation: a.Trust.Report()})
}

// recoverUpdate finishes or rolls back an update that a crash, a reboot or the end of the process interrupted.
func recoverUpdate(ctx context.Context, a *Agent) error {
	end, err := a.runner.Recover(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		if rec, errLoad := a.Host.Journal.Load(); errLoad == nil && rec != nil {
			return &unfinishedError{rec.To, err}
		}
		return err
	case end.End == apply.Rebooting:
		a.enter(report.Rebooting)
		return reportReboot(ctx, a, end)
	case end.End == apply.RebootUnknown:
		return newRebootUnknownError(a, end)
	case end.End == apply.HealthUnknown:
		return healthUnknown(ctx, end)
	case end.End == apply.New:
		a.Log.Info("the new config is in force", "config", end.To)
		a.recordUpdate(end.To, nil)
	case end.End == apply.Old && end.From == end.To && !isUpdate(a, end.To):
		a.Log.Warn("rolled back a repair, or a change of files beside the config", "config", end.From, "why", end.Why)
	case end.End == apply.Old:
		reportRollback(a, end)
	case end.End == apply.RollbackFailed:
		a.status.Planned = true
		return partialRollbackError(end)
	}
	return nil
}

// reportRollback reports the rollback of an update.
func reportRollback(a *Agent, end apply.Applied) {
	a.Log.Warn("rolled back", "config", end.From, "from", end.To, "why", end.Why)
	a.recordUpdate(end.To, end.Why)
	reason := report.EventRolledBack
	if v, err := a.files.Rejection(); err == nil && v.IsFinal() && v.Config == end.To {
		reason = report.EventRejected
	}
	a.event(reason, "rolled back from %s to %s: %v", end.To, report.RollbackTarget(end.From, end.To), end.Why)
}

// isUpdate reports whether the daemon has stored an update to a config.
func isUpdate(a *Agent, config string) bool {
	t, err := a.files.Task(config)
	return err != nil || t != nil
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

// writeFirstRecord writes the record of the current config if only the Node names that config, as on a machine that
// has just joined.
func writeFirstRecord(ctx context.Context, a *Agent, name string) error {
	if mc, err := apply.LoadRecord(a.Host.Files); err != nil || mc != nil {
		return err
	}
	mc, err := readConfig(ctx, a.Config, name)
	if err != nil {
		return fmt.Errorf("fetching the current config %s: %w", name, err)
	}
	text, err := plan.RecordOf(mc)
	if err != nil {
		return err
	}
	observed, err := apply.Observe(ctx, a.Host, plan.ScopeOf())
	if err != nil {
		return err
	}
	p := plan.Diff(observed, plan.WithRecord(observed, text), plan.DiffOptions{From: name, To: name})
	done, err := a.runner.Run(ctx, p, map[host.Digest][]byte{host.DigestOf(text): text})
	return errors.Join(err, done.Why)
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

// keepContents stores the remote files of the config in force. A failure delays nothing.
func keepContents(ctx context.Context, a *Agent, node report.Node) {
	at, err := a.currentConfig(ctx, node)
	if err == nil {
		err = fetch.Keep(a.Fetch.Fetcher(), at)
	}
	if err != nil {
		a.Log.Warn("keeping the contents of remote files", "err", err)
	}
}

// followNext downloads the content of the config that the node gets next, in the background, and reports whether the
// machine has it. A failure delays nothing else, and is tried again.
func followNext(ctx context.Context, a *Agent, node report.Node) {
	if a.Fetch == nil {
		return
	}
	next := node.Next
	if next == v1alpha1.ConfigName(node.Desired) {
		next = ""
	}
	was := fetch.LastReport(node.Fetched)
	is := a.Fetch.Report(ctx, next, was, func() (fetch.Way, error) {
		mc, err := readConfig(ctx, a.Config, next)
		if err != nil {
			return fetch.Way{}, fmt.Errorf("reading the config: %w", err)
		}
		to, err := plan.ParseConfig(mc)
		if err != nil { // The node refuses the config when it is assigned, and says why.
			to = plan.Config{Name: next}
		}
		from, err := a.currentConfig(ctx, node)
		return fetch.Way{From: from, To: to}, err
	})
	if err := a.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: is.String()}); err != nil {
		a.Log.Warn("reporting the content of the next config", "config", next, "err", err)
		a.Fetch.TryAgain()
	} else if is.Problem != "" && (is.Config != was.Config || was.Problem == "") {
		a.event(report.EventFetchFailed, "content of %s: %s", is.Config, is.Problem)
	}
}

// clearWithheld removes the annotation about withheld secrets from the Node and from the machine's initial
// annotations. The agent calls it once a record exists.
func clearWithheld(ctx context.Context, c Config) error {
	text, err := c.Host.Files.Read(host.InitialAnnotationsPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var seed map[string]any
	if err != nil || json.Unmarshal(text, &seed) != nil {
		return err // readInitialAnnotations reports a damaged file.
	}
	if _, marked := seed[v1alpha1.WithheldAnnotation]; !marked {
		return nil
	}
	if err := c.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.WithheldAnnotation: ""}); err != nil {
		return fmt.Errorf("reporting that nothing is withheld any more: %w", err)
	}
	delete(seed, v1alpha1.WithheldAnnotation)
	is, err := c.Host.Files.Stat(host.InitialAnnotationsPath)
	if err == nil {
		text, err = json.Marshal(seed)
	}
	if err == nil {
		err = c.Host.Files.Write(host.InitialAnnotationsPath, is, text)
	}
	if err == nil {
		err = c.Host.Disk.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("removing the withheld annotation from %s: %w", host.InitialAnnotationsPath, err)
	}
	return nil
}
