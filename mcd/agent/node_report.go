package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
)

// StatusPublisher publishes the progress of the daemon as the status of the node's MachineConfigNode.
type StatusPublisher interface {
	// Publish replaces the status that was published before. Publish returns at once and never fails. A status that is
	// soon replaced by the next one may never be written.
	Publish(at report.Status)
}

// nodeReport is what the node says about itself: the annotations of its Node, the status of its MachineConfigNode,
// events and metrics. Each sync determines it anew; only the failed config and the outages outlast a sync.
type nodeReport struct {
	name      string
	cluster   Cluster
	files     state.Files
	log       *slog.Logger
	events    Events
	metrics   Metrics
	publisher StatusPublisher

	// phase is the agent's phase. status is its status without the phase.
	phase  report.Progress
	status report.Status
	// node is the Node that the present sync has read; nil if it has read none.
	node *report.Node
	// failed is the config whose steps failed last, or "". The node stays Degraded while the agent retries that
	// config.
	failed string
	// outage is the time without an answer of the API server.
	outage outage
	// unanswered is the reboot of which it is unknown whether the machine has accepted it.
	unanswered request
}

// report reports how a sync ended, unless it is to be repeated, and returns the outcome with what the report itself
// failed of. An outcome that the Node has, and that lasts until somebody acts, has no error.
func (r *nodeReport) report(ctx context.Context, o Outcome) Outcome {
	switch {
	case o.kind == proceed, o.kind == waiting:
		if r.node == nil { // The update on disk goes on, and the API server does not answer.
			return o
		}
		r.outage.end(r.log)
		o.reported = true
	case o.kind == rebooting, ctx.Err() != nil:
	case o.kind == unknownReboot:
		return r.reportUnknownReboot(ctx, o)
	case o.kind == refused:
		r.enter(report.Refused)
		r.failed, r.status.Refusals = "", o.refusals
		return r.reportLasting(ctx, v1alpha1.StateUnreconcilable, o)
	case o.kind == rejected:
		r.enter(report.Rejected)
		r.failed = ""
		return r.reportLasting(ctx, v1alpha1.StateDegraded, o)
	case o.kind == drifted:
		r.enter(report.Drifted)
		return r.reportLasting(ctx, v1alpha1.StateDegraded, o)
	case o.kind == unfetched:
		o = o.with(r.reportUnfetched(ctx, o))
		o.reported = true
	case o.unanswered && r.tolerates(o):
		return o.with(r.reportUnread(ctx, o))
	default:
		return r.reportFailure(ctx, o)
	}
	return o
}

// reportFailure reports a failure after which the loop tries again.
func (r *nodeReport) reportFailure(ctx context.Context, o Outcome) Outcome {
	why := o.Err.Error()
	r.enter(o.phase(r.phase.Phase(), r.status.InForce))
	r.set(v1alpha1.StateDegraded, why)
	r.status.Node.Failure = o.failureIn(r.phase.Phase()).String()
	r.publish()
	r.reportCause(ctx, o)
	err := r.reportState(ctx, v1alpha1.StateDegraded, why)
	o.reported = err == nil
	return o.with(err)
}

// reportLasting reports a state that stays until a user or the controller acts. It logs the state when the Node does
// not have it yet. The outcome has an error only if the report failed.
func (r *nodeReport) reportLasting(ctx context.Context, state string, o Outcome) Outcome {
	why := o.Err.Error()
	r.outage.end(r.log)
	r.set(state, why)
	r.publish()
	if r.metrics != nil {
		r.metrics.State(state, v1alpha1.TruncateReason(why))
	}
	node, err := r.cluster.Node(ctx)
	r.reportCause(ctx, o.of(node.Desired))
	o.Err, o.reported = nil, true
	if err == nil && node.State == state && node.Reason == v1alpha1.TruncateReason(why) {
		return o
	}
	r.log.Warn(strings.ToLower(state), "why", why)
	if state == v1alpha1.StateUnreconcilable {
		r.event(report.EventFailedToReconcile, "%s", why)
	}
	if err := r.reportState(ctx, state, why); err != nil {
		o.reported = false
		return o.with(err)
	}
	return o
}

// reportCause reports the structured cause of a failure before the state, so that the controller knows the cause when
// the state changes. It uses a separate write, because an admission policy older than the daemon may reject it. If the
// Node already has this failure, it writes again only for a new text or for another retry request.
func (r *nodeReport) reportCause(ctx context.Context, o Outcome) {
	node, err := r.cluster.Node(ctx)
	if o.Desired == "" || err != nil {
		return // The caller cannot report the state either.
	}
	f := o.failureIn(r.phase.Phase())
	was, err := v1alpha1.ParseFailure(node.Failure)
	// The failure counts as the same even if its text differs.
	same := err == nil && was.Config == f.Config && was.Secrets == f.Secrets && was.Cause == f.Cause &&
		was.Phase == f.Phase && was.Path == f.Path
	f.Since = metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	if same {
		f.Since, f.Retry = was.Since, was.Retry
	}
	// The retry request is that at the start of the attempt, because the attempt does not answer a later request.
	if r.node != nil && !r.node.Retry.IsZero() {
		f.Retry = &metav1.Time{Time: r.node.Retry}
	}
	if same && f.Retry.Equal(was.Retry) && f.Problem == was.Problem {
		return
	}
	if err := r.cluster.SetAnnotations(ctx, map[string]string{v1alpha1.FailureAnnotation: f.String()}); err != nil {
		r.log.Debug("the cause of the failure is not reported", "err", err)
	}
}

// tolerates reports whether a missing answer is not a failure yet: the whole API server does not answer, or a part of
// it has failed for a short time.
func (r *nodeReport) tolerates(o Outcome) bool {
	if r.node == nil {
		return true
	}
	return r.outage.begin(r.log, "a part of the cluster gives no usable answer", "err", o.Err) < o.limit
}

// missAnswer records that the API server does not answer at all, and returns for how long.
func (r *nodeReport) missAnswer(down error) time.Duration {
	return r.outage.begin(r.log, outageText(down), "err", down)
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

// reportUnread reports that the node waits for its config or the secrets of its config, once the wait has lasted for
// unreadReportAfter.
func (r *nodeReport) reportUnread(ctx context.Context, o Outcome) error {
	if r.node == nil || !o.waits || r.failed == r.node.Desired || r.outage.begin(r.log, "") < unreadReportAfter {
		return nil
	}
	r.set(v1alpha1.StateWorking, o.Err.Error())
	r.publish()
	return r.reportState(ctx, v1alpha1.StateWorking, o.Err.Error())
}

// reportUnfetched reports why the node cannot download files of its desired config.
func (r *nodeReport) reportUnfetched(ctx context.Context, o Outcome) error {
	if r.node != nil {
		is := fetch.WithProblem(v1alpha1.ParseConfigVersion(r.node.Desired).Config,
			fetch.LastReport(r.node.Fetched), o.Err)
		if err := r.reportChanges(ctx, map[string]string{v1alpha1.FetchedAnnotation: is.String()}); err != nil {
			return err
		}
	}
	return r.reportWaiting(ctx, o.Err.Error())
}

// reportWaiting reports why the node is not drained yet.
func (r *nodeReport) reportWaiting(ctx context.Context, text string) error {
	r.outage.end(r.log)
	r.set(v1alpha1.StateWorking, text)
	r.publish()
	return r.reportState(ctx, v1alpha1.StateWorking, text)
}

// reportUnknownReboot reports the error on the Node once it has lasted for outageLimit. A machine that goes down needs
// less time, and reports after the boot.
func (r *nodeReport) reportUnknownReboot(ctx context.Context, o Outcome) Outcome {
	if r.unanswered.elapsed("reboot", time.Time{}) < outageLimit {
		return o
	}
	r.set(v1alpha1.StateDegraded, o.Err.Error())
	r.status.Node.Failure = "" // That of an earlier attempt.
	r.publish()
	err := r.reportState(ctx, v1alpha1.StateDegraded, o.Err.Error())
	o.reported = err == nil
	return o.with(err)
}

// rebootUnanswered returns the outcome of a reboot whose acceptance is unknown. The phase is that of a reboot, because
// nothing was rolled back.
func (r *nodeReport) rebootUnanswered(end apply.Applied) Outcome {
	r.enter(report.Rebooting)
	config := end.To
	if rec, err := r.files.Host.Journal.Load(); err == nil && rec != nil && rec.Phase == host.RollbackReboot {
		config = end.From
	}
	cause := end.Why
	if unknown := new(fault.UnknownError); errors.As(cause, &unknown) {
		cause = unknown.Err
	}
	return failing(unknownReboot, fmt.Errorf("it is unknown whether the machine reboots into %s: %w; the daemon looks "+
		"again, and requests the reboot again if the machine does not go down: see systemctl list-jobs, and systemctl "+
		"status dbus systemd-logind, on the node", config, cause))
}

// rebootAnswered records that it is known whether the machine reboots.
func (r *nodeReport) rebootAnswered() { r.unanswered = request{} }

// reportReboot returns the outcome of a machine that goes down. For a rollback, it reports the reason on the Node
// first.
func (r *nodeReport) reportReboot(ctx context.Context, end apply.Applied) Outcome {
	r.enter(report.Rebooting)
	if r.metrics != nil {
		r.metrics.Reboot(nil)
	}
	down := Outcome{kind: rebooting, Err: ErrRebooting}
	if end.Why == nil {
		return down
	}
	why := end.Why.Error()
	if v, err := r.files.Rejection(); err == nil && v.IsFinal() && v.Config == end.To {
		why = v.Why
	}
	r.status.Planned, r.status.RollingBack = true, true
	r.status.Node.Desired, r.status.Node.Current = cmp.Or(r.status.Node.Desired, end.To), end.From
	r.set(v1alpha1.StateDegraded, why)
	r.publish()
	r.event(report.EventReboot, "rebooting to roll back to %s", report.RollbackTarget(end.From, end.To))
	if err := r.reportState(ctx, v1alpha1.StateDegraded, why); err != nil {
		r.log.Warn("reporting the rollback", "err", err)
	}
	return down
}

// begin starts the report of a sync.
func (r *nodeReport) begin() {
	r.node = nil
	r.status = report.Status{NodeName: r.name}
}

// read records the Node of this sync.
func (r *nodeReport) read(node report.Node) {
	r.node = &node
	r.status.Node = node
}

// continueAs records the Node of an update that continues while the API server does not answer.
func (r *nodeReport) continueAs(node report.Node) { r.status.Node = node }

// markInForce records whether the desired config is in force.
func (r *nodeReport) markInForce(inForce bool) { r.status.InForce = inForce }

// markCurrent records the config that the node has.
func (r *nodeReport) markCurrent(config string) { r.status.Node.Current = config }

// markFailed records that the steps of a config failed, or may fail.
func (r *nodeReport) markFailed(config string) { r.failed = config }

// clearFailed records that the reason on the Node no longer holds.
func (r *nodeReport) clearFailed() { r.failed = "" }

// retries reports whether the agent retries a config whose steps failed. The Node keeps the reason meanwhile.
func (r *nodeReport) retries(config string) bool { return r.failed == config }

// endWait ends the outage if the sync has read the Node, and reports whether there was one.
func (r *nodeReport) endWait() bool {
	waited := r.node != nil && !r.outage.since.IsZero()
	if waited {
		r.outage.end(r.log)
	}
	return waited
}

// enter changes the agent's phase.
func (r *nodeReport) enter(p report.Phase) {
	from := r.phase.Phase()
	if err := r.phase.Enter(p); err != nil {
		r.log.Error("bug in the daemon", "err", err)
	}
	if from != p {
		r.log.Debug("phase", "from", string(from), "to", string(p))
	}
}

// plan enters the phase Planned: the machine can apply the steps of a plan.
func (r *nodeReport) plan(p plan.Plan) {
	r.enter(report.Planned)
	r.status.Planned, r.status.Drains, r.status.Reboots = true, p.Drain, p.Reboots()
}

// markPlanned records that the machine could apply the desired config.
func (r *nodeReport) markPlanned() { r.status.Planned = true }

// resume enters a phase of the update in a journal, which an earlier process may have started.
func (r *nodeReport) resume(rec host.Record, p report.Phase) {
	r.restore(rec)
	r.enter(p)
	r.publish()
}

// restore fills the status from a journal. It needs no API server.
func (r *nodeReport) restore(rec host.Record) {
	r.status.Planned, r.status.Reboots = true, health.Reboots(rec)
	if r.status.Node.Desired == rec.To {
		return
	}
	r.status.Node = report.Node{Current: rec.From}
	if t, err := r.files.Task(rec.To); err == nil && t != nil {
		r.status.Node = t.Node // t.Node is the Node as it was at the start of the steps.
	}
	r.status.Node.Desired = rec.To
	if r.status.Node.State != v1alpha1.StateDegraded {
		r.set(v1alpha1.StateWorking, "")
	}
	r.status.Drains = r.status.Reboots || strings.HasPrefix(r.status.Node.LastAppliedDrain, v1alpha1.DrainVerb+"-")
}

// set records the state and the reason for the next publish.
func (r *nodeReport) set(state, reason string) {
	r.status.Node.State, r.status.Node.Reason = state, v1alpha1.TruncateReason(reason)
}

// publish publishes the status, if the sync has a desired config or the agent is idle.
func (r *nodeReport) publish() {
	r.status.Phase = r.phase.Phase()
	if r.publisher != nil && (r.status.Node.Desired != "" || r.status.Phase == report.Idle) {
		r.publisher.Publish(r.status)
	}
}

// reportState reports the state and the reason, if they differ from those of the Node.
func (r *nodeReport) reportState(ctx context.Context, state, reason string) error {
	reason = v1alpha1.TruncateReason(reason)
	if r.metrics != nil {
		r.metrics.State(state, reason)
	}
	want := map[string]string{
		v1alpha1.StateAnnotation: state, v1alpha1.ReasonAnnotation: reason,
		v1alpha1.PostConfigActionAnnotation: "",
	}
	if state != v1alpha1.StateDegraded && state != v1alpha1.StateUnreconcilable {
		want[v1alpha1.FailureAnnotation] = ""
	}
	if err := r.reportChanges(ctx, want); err != nil {
		return fmt.Errorf("reporting state %s: %w", state, err)
	}
	return nil
}

// reportChanges reports the annotations that the Node does not have yet.
func (r *nodeReport) reportChanges(ctx context.Context, want map[string]string) error {
	node, err := r.cluster.Node(ctx)
	if err != nil {
		return err
	}
	changes := node.MissingChanges(want)
	if len(changes) == 0 {
		return nil
	}
	return r.cluster.SetAnnotations(ctx, changes)
}

// postpone drops the error of a report that did not reach the API server, because a later sync derives the report from
// the state on disk.
func (r *nodeReport) postpone(err error) error {
	if errors.Is(err, report.ErrUnreachable) {
		r.log.Debug("status update postponed: the API server is unreachable", "err", err)
		return nil
	}
	return err
}

// event emits an event, if anything takes events.
func (r *nodeReport) event(reason report.EventReason, format string, args ...any) {
	if r.events != nil {
		r.events.Event(reason, fmt.Sprintf(format, args...))
	}
}

// step emits an event about a step that affects services.
func (r *nodeReport) step(s host.Step) {
	switch s.Verb {
	case host.Reload:
		r.event(report.EventServiceReload, "reloaded %s", s.Target)
	case host.Restart:
		r.event(report.EventServiceRestart, "restarted %s", s.Target)
	case host.Stop:
		r.event(report.EventServiceRestart, "stopped %s, which the config does not have any more", s.Target)
	case host.SetImage:
		r.event(report.EventOSUpdateStaged, "staged OS image %s for the next boot", s.After.Word)
	}
}

// driftedSince records in the metrics when the drift began; the zero time means that there is no drift.
func (r *nodeReport) driftedSince(at time.Time) {
	if r.metrics != nil {
		r.metrics.Drift(at)
	}
}

// countUpdate counts the result of an update in the metrics.
func (r *nodeReport) countUpdate(config string, err error) {
	if r.metrics != nil {
		r.metrics.Update(config, err)
	}
}

// outage is an outage of the API server, or of a part of it.
type outage struct {
	// since is the start of the outage; zero while the API server answers.
	since time.Time
	// logged is the last message of the outage.
	logged string
}

// begin records a missing answer and returns how long the outage has lasted. It logs the start of the outage, and
// another message. An empty message is not logged after the start.
func (s *outage) begin(log *slog.Logger, message string, args ...any) time.Duration {
	if s.since.IsZero() {
		s.since, s.logged = time.Now(), ""
	}
	if message != "" && message != s.logged {
		log.Warn(message, args...)
		s.logged = message
	}
	return time.Since(s.since)
}

// end records that the API server answered and logs how long the outage lasted.
func (s *outage) end(log *slog.Logger) {
	if !s.since.IsZero() {
		log.Info("the API server answers again", "after", time.Since(s.since).Round(time.Second))
	}
	s.since = time.Time{}
}
