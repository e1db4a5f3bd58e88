package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

// Run syncs whenever the Node or a watched file changes, until the context ends (nil) or the machine reboots
// (ErrRebooting). Run first finishes an update that has already started. After a failure, Run waits before the next
// attempt, unless another config is desired meanwhile.
func (a *Agent) Run(ctx context.Context, changed <-chan struct{}) error {
	wake := signals{Changed: changed, Fetched: a.Fetch.Changed()}
	defer a.stopFetching()
	if a.Drift != nil {
		wake.Disturbed = a.Drift.Disturbed()
	}
	if a.Trust != nil {
		wake.Trust = a.Trust.Changed()
	}
	pause := time.Duration(0)
	for {
		early := a.syncTrust(ctx)
		o := a.Sync(ctx)
		if !early && ctx.Err() == nil {
			a.syncTrust(ctx) // an update was under way
		}
		stepsFailed := o.Desired != "" && a.report.retries(o.Desired)
		switch {
		case ctx.Err() != nil:
			return nil
		case o.kind == rebooting:
			return o.Err
		case o.Err == nil:
			if !stepsFailed { // A further try of a failed config waits for its drain here.
				pause = 0
			}
			wake.wait(ctx, true, a.untilResync())
			continue
		}
		pause = min(max(2*pause, minBackoff), maxBackoff)
		switch {
		case o.kind == unknownReboot:
			a.Log.Warn("looking again whether the machine reboots", "in", pause, "err", o.Err)
			wake.wait(ctx, false, pause)
		case o.isUnread():
			level := slog.LevelDebug
			if stepsFailed {
				level = slog.LevelError
			}
			a.Log.Log(ctx, level, "the next sync follows", "in", pause, "err", o.Err)
			// If steps failed, they and their rollback have changed watched files, so changes of these files are
			// ignored.
			wake.wait(ctx, !stepsFailed, jitter(pause))
		default:
			a.Log.Error("update failed, retrying", "config", o.Desired, "in", pause, "err", o.Err)
			if a.waitFailed(ctx, &wake, o.Desired, pause) {
				pause = 0
			}
		}
	}
}

// Sync takes steps until nothing is left to do now. It reports the outcome on the Node, if it can reach the API server;
// otherwise a later Sync derives the report from the state on disk. An outcome without an error lasts until the Node
// or the machine changes.
func (a *Agent) Sync(ctx context.Context) Outcome {
	defer a.Fetch.Lock()()
	o := a.reconcile(ctx)
	for o.kind == again {
		o = a.reconcile(ctx)
	}
	o = a.report.report(ctx, o)
	if o.reported && a.Reported != nil {
		a.Reported()
	}
	return o
}

// reconcile reads the journal, the disk and the Node and takes the next step. Recovery comes first, because it works
// without the API server.
func (a *Agent) reconcile(ctx context.Context) Outcome {
	a.updater.health.stopWith(ctx)
	a.report.begin()
	recovered := a.recover(ctx)
	if !recovered.ends() {
		recovered = a.start(ctx)
	}
	if recovered.kind == rebooting {
		return recovered
	}
	node, err := a.Cluster.Node(ctx)
	if err != nil {
		err = fmt.Errorf("reading the Node: %w", err)
		switch {
		case recovered.ends():
			return recovered.with(err)
		case errors.Is(err, report.ErrUnreachable):
			return a.continueOffline(ctx, err)
		}
		return outcomeOf(err)
	}
	a.report.read(node)
	if recovered.ends() {
		return recovered.of(node.Desired)
	}
	return a.follow(ctx, node).of(node.Desired)
}

// recover finishes or rolls back the update in the journal, which a crash, a reboot or the end of the process
// interrupted. It needs no API server, and proceeds if the journal has no update any more.
func (a *Agent) recover(ctx context.Context) Outcome {
	o := a.continueUpdate(ctx)
	if o.kind != unknownReboot {
		a.report.rebootAnswered()
	}
	return o
}

func (a *Agent) continueUpdate(ctx context.Context) Outcome {
	end, err := a.updater.runner.Recover(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		if rec, errLoad := a.files.Host.Journal.Load(); errLoad == nil && rec != nil {
			return unfinishedUpdate(rec.To, err)
		}
		return outcomeOf(err)
	case end.End == apply.Rebooting:
		return a.report.reportReboot(ctx, end)
	case end.End == apply.RebootUnknown:
		return a.report.rebootUnanswered(end)
	case end.End == apply.HealthUnknown:
		return unknownHealth(ctx, end)
	case end.End == apply.New:
		a.Log.Info("the new config is in force", "config", end.To)
		a.report.countUpdate(end.To, nil)
	case end.End == apply.Old && end.From == end.To && !a.isUpdate(end.To):
		a.Log.Warn("rolled back a repair, or a change of files beside the config", "config", end.From, "why", end.Why)
	case end.End == apply.Old:
		a.reportRollback(end)
	case end.End == apply.RollbackFailed:
		a.report.markPlanned()
		return partialRollback(end)
	}
	return Outcome{}
}

// isUpdate reports whether the daemon has stored an update to a config.
func (a *Agent) isUpdate(config string) bool {
	t, err := a.files.Task(config)
	return err != nil || t != nil
}

// reportRollback reports the rollback of an update.
func (a *Agent) reportRollback(end apply.Applied) {
	a.Log.Warn("rolled back", "config", end.From, "from", end.To, "why", end.Why)
	a.report.countUpdate(end.To, end.Why)
	reason := report.EventRolledBack
	if v, err := a.files.Rejection(); err == nil && v.IsFinal() && v.Config == end.To {
		reason = report.EventRejected
	}
	a.report.event(reason, "rolled back from %s to %s: %v", end.To, report.RollbackTarget(end.From, end.To), end.Why)
}

// start runs once after the daemon starts: it moves the files of the first boot away and reports which OS runs.
func (a *Agent) start(ctx context.Context) Outcome {
	first, err := a.firstBoot.clean(ctx)
	if first && a.Metrics != nil {
		release := apply.Release(a.Host.Files)
		a.Metrics.Boot(release["ID"], release["VERSION_ID"])
	}
	return outcomeOf(err)
}

// follow reports what the Node does not have yet, and brings the machine to its desired config.
func (a *Agent) follow(ctx context.Context, node report.Node) Outcome {
	if err := a.drift.reportLogin(ctx, node); err != nil { // An error in reporting the login does not delay an update.
		a.Log.Warn("reporting a login", "err", err)
	}
	if err := a.reportTrust(ctx, node); err != nil {
		a.Log.Warn("reporting what the node trusts", "err", err)
	}
	if reported, err := a.firstBoot.report(ctx, node); err != nil {
		return outcomeOf(err)
	} else if reported {
		return Outcome{kind: again}
	}
	if node.Desired == "" {
		return a.reportReady(ctx, node)
	}
	return a.reach(ctx, node)
}

// reach confirms that the desired config is in force, keeps to its rejection, or updates to it.
func (a *Agent) reach(ctx context.Context, node report.Node) Outcome {
	record, err := apply.LoadRecord(a.Host.Files)
	if err != nil {
		return outcomeOf(err)
	}
	_, forced, err := a.files.ForceFile()
	if err != nil {
		return outcomeOf(err)
	}
	rejection, err := a.rejection(ctx, node, forced)
	if err != nil {
		return outcomeOf(err)
	}
	if err := a.files.RemoveOutdatedTask(ctx, node.Desired); err != nil {
		return outcomeOf(err)
	}
	inForce, err := a.isInForce(node, record)
	if err != nil {
		return outcomeOf(err)
	}
	a.report.markInForce(inForce && !forced)
	switch {
	case inForce && !forced:
		if o := a.updater.rewriteAfterBoot(ctx, node); o.ends() {
			return o
		}
		return a.updater.confirm(ctx, node)
	case rejection.IsFinal():
		if err := a.files.ConfirmRejection(ctx, *rejection); err != nil {
			return outcomeOf(err)
		}
		return rejectedBy(*rejection)
	}
	if a.drift.first() && !inForce && record != nil {
		a.report.event(report.EventBootResync, "the daemon has started and updates from %s to %s", plan.NameOf(*record),
			node.Desired)
	}
	return a.updater.run(ctx, node)
}

// isInForce reports whether the machine runs the desired config. The record decides; without a record, the Node
// decides.
func (a *Agent) isInForce(node report.Node, record *mcfgv1.MachineConfig) (bool, error) {
	if record != nil {
		return plan.NameOf(*record) == node.Desired, nil
	}
	if node.Current != node.Desired {
		return false, nil
	}
	withheld, err := a.firstBoot.withheld(node.Current)
	return !withheld, err
}

// rejection returns the stored rejection; nil for none. It removes the rejection if its config is no longer desired, or
// if the force file or a retry request lifts it.
func (a *Agent) rejection(ctx context.Context, node report.Node, forced bool) (*state.Rejection, error) {
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

// reportTrust reports what the machine has of what its pools trust, if the Node does not have this report yet.
func (a *Agent) reportTrust(ctx context.Context, node report.Node) error {
	if a.Trust == nil || node.Trust == a.Trust.Report() {
		return nil
	}
	return a.Cluster.SetAnnotations(ctx, map[string]string{v1alpha1.TrustReportAnnotation: a.Trust.Report()})
}

// reportReady reports Done without a config, on a node that did not boot from the server and that the controller has
// not assigned a config yet. After this report, the rollout assigns the first config.
func (a *Agent) reportReady(ctx context.Context, node report.Node) Outcome {
	a.report.set(v1alpha1.StateDone, "")
	a.report.publish()
	if node.State == v1alpha1.StateDone && node.Reason == "" {
		return Outcome{kind: waiting}
	}
	a.Log.Info("ready for a first config")
	return outcomeOf(a.report.reportState(ctx, v1alpha1.StateDone, ""))
}

// continueOffline continues while the API server does not answer: it finishes an update that has started, from the
// task on disk, and scans for drift. When the API server answers again, the reports follow from the state on disk.
func (a *Agent) continueOffline(ctx context.Context, down error) Outcome {
	missing := a.report.missAnswer(down)
	t, err := a.files.Task("")
	if err != nil {
		return outcomeOf(err).with(down)
	}
	v, err := a.files.Rejection()
	if err != nil {
		return outcomeOf(err).with(down)
	}
	if v != nil && v.Unconfirmed && missing >= a.Health.RebootLimit() {
		a.Log.Warn("the API server is unreachable with the old config too; removing the rejection of the new one",
			"config", v.Config)
		return outcomeOf(errors.Join(a.files.Remove(ctx, state.RejectionPath, state.TaskPath), down))
	}
	record, err := apply.LoadRecord(a.Host.Files)
	switch {
	case err != nil:
		return outcomeOf(err).with(down)
	case t != nil && !v.IsFinal() && (record == nil || plan.NameOf(*record) != plan.NameOf(t.Config)):
		a.report.continueAs(t.Node)
		return a.updater.run(ctx, t.Node).of(plan.NameOf(t.Config))
	case record != nil:
		at := plan.NameOf(*record)
		if err := a.drift.check(ctx, report.Node{Current: at, Desired: at}); err != nil {
			a.Log.Debug("the machine differs from its config; the report follows when the API server answers", "config",
				at, "why", err)
		}
	}
	return outcomeOf(down)
}

// syncTrust writes the files that the machine gets beside its config. It returns false if an update is under way.
func (a *Agent) syncTrust(ctx context.Context) (done bool) {
	if a.Trust == nil {
		return true
	}
	defer a.Fetch.Lock()()
	turn := trust.Turn{Rules: a.Cluster.Rules, OnStep: a.updater.runner.OnStep, Now: time.Now()}
	if node := a.report.node; node != nil && node.Current == "" && node.Desired == "" {
		turn.Unconfigured = !a.firstBoot.configured()
	}
	return a.Trust.Sync(ctx, turn)
}

// stopFetching ends the downloads in the background.
func (a *Agent) stopFetching() {
	defer a.Fetch.Lock()()
	a.Fetch.Stop()
}

// untilResync returns how long the agent waits for a change. Nothing tells it when something that refuses a config is
// gone from the machine, such as a mask.
func (a *Agent) untilResync() time.Duration {
	onNode := func(r disruption.Refusal) bool { return r.Check != "" }
	if a.Phase() == report.Refused && slices.ContainsFunc(a.report.status.Refusals, onNode) {
		return jitter(maxBackoff)
	}
	return resyncInterval
}

// waitFailed waits for the pause to end or a watched file to change. It returns true at once in three cases: another
// config is desired, the Node requests a retry, or the Node can be read after a failed read.
func (a *Agent) waitFailed(ctx context.Context, s *signals, failed string, pause time.Duration) bool {
	until := time.Now().Add(pause)
	for s.wait(ctx, failed == "" || !a.report.retries(failed), time.Until(until)) {
		node, err := a.Cluster.Node(ctx)
		was := a.report.node
		if err == nil && (was == nil || node.Desired != failed || node.Retry != was.Retry) {
			return true
		}
	}
	return false
}

// jitter adds a random part to a pause, so that nodes do not all send requests at once after an outage.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

const (
	// minBackoff is the first pause after a change or failure. Each further pause is twice as long, up to maxBackoff.
	minBackoff, maxBackoff = time.Second, time.Minute
)

// signals start a sync. The first change of a watched file starts a sync at once. A backoff delays the sync after
// further changes, because a program may write a file every second.
type signals struct {
	// Changed fires when the Node changes. Disturbed fires when a watched file changes. Trust fires when the server has
	// sent other files beside the config. Fetched fires when a download in the background has ended or failed. Each of
	// the channels may be nil.
	Changed, Disturbed, Trust, Fetched <-chan struct{}
	// last is when the last change was accepted. Another change is accepted only after the pause.
	last  time.Time
	pause time.Duration
}

// record records a change. The pause grows with each change that comes soon after another.
func (s *signals) record(now time.Time) {
	if now.Sub(s.last) > 2*s.pause+maxBackoff/2 {
		s.pause = 0
	} else {
		s.pause = min(max(2*s.pause, minBackoff), maxBackoff)
	}
	s.last = now
}

// wait waits for a change of the Node, a change of a watched file if files is true, other files of the server, a
// download, the limit or the end of the context. It returns true for a change of the Node.
func (s *signals) wait(ctx context.Context, files bool, limit time.Duration) bool {
	limited, paused := time.NewTimer(limit), time.NewTimer(s.pause-time.Since(s.last))
	defer limited.Stop()
	defer paused.Stop()
	var accepted <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-limited.C:
			return false
		case <-s.Changed:
			return true
		case <-s.Trust:
			return false
		case <-s.Fetched:
			return false
		case <-paused.C:
			if files {
				accepted = s.Disturbed
			}
		case <-accepted:
			s.record(time.Now())
			return false
		}
	}
}
