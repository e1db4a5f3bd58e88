package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	"github.com/bunsen-os/bunsen/mcd/state"
	"github.com/bunsen-os/bunsen/mcd/trust"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Cluster gives the agent its own Node, configs by name, and the cluster's policies. Errors wrap report.ErrUnreachable
// if the API server did not answer.
type Cluster interface {
	// Node reads the Node's annotations that the protocol uses.
	Node(ctx context.Context) (report.Node, error)
	// SetAnnotations sets annotations on the Node and does not change other annotations.
	SetAnnotations(ctx context.Context, annotations map[string]string) error
	secrets.Source
	// Config fetches a MachineConfig.
	Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error)
	// Rules reads the disruption policy and the overrides. Rules returns the defaults if the cluster has neither.
	Rules(ctx context.Context) (plan.Rules, error)
	// DriftRules reads the drift policy for the nodes of a pool. DriftRules returns the zero Policy if the cluster has
	// no drift policy.
	DriftRules(ctx context.Context, pool string) (drift.Policy, error)
}

// The intervals and limits of the agent.
const (
	// resyncInterval is how long the agent waits for a signal before it reconciles the node without a signal.
	resyncInterval = 5 * time.Minute
	// drainLimit is how long a drain may take before the node reports that it is stuck. uncordonLimit is the limit for
	// the uncordon.
	drainLimit, uncordonLimit = time.Hour, 10 * time.Minute
	// outageLimit is how long a part of the API may fail to answer, while other parts answer, before the node reports
	// the outage.
	outageLimit = time.Minute
	// unreadReportAfter is how long the node waits before it reports that it cannot read its config. After
	// unreadFailAfter, the update fails. The times are long enough for a server to restart or to read new labels.
	unreadReportAfter, unreadFailAfter = 5 * time.Second, 10 * time.Minute
)

// ErrRebooting reports that the machine reboots. The caller stops, and a new agent starts after the boot.
var ErrRebooting = errors.New("the machine is rebooting")

// errWaiting reports that the controller has to act first. When the controller acts, it changes the Node, and this
// change starts the next sync.
var errWaiting = errors.New("waiting")

// Config has the parts of an Agent. Node, Cluster, Host and Log must be set; the other fields may be nil, and then the
// agent works without them.
type Config struct {
	// Node is the node's name, for the log.
	Node string
	// Cluster is the API server with the node's configs.
	Cluster Cluster
	// Host is the machine that the agent changes.
	Host host.Host
	// Log gets one line for each step.
	Log *slog.Logger
	// Health checks a machine after an update; nil: every config is healthy.
	Health *HealthOptions
	// Drift watches the files that configs put on the machine.
	Drift drift.Watcher
	// Trust writes the files that the machine gets beside its config.
	Trust *trust.Syncer
	// Fetch brings the remote files of configs onto the machine.
	Fetch *fetch.Syncer
	// Events and Metrics record what the agent does. Status receives the progress of the agent.
	Events  Events
	Metrics Metrics
	Status  StatusPublisher
	// Reported is called each time the agent has read the Node and its config, and has reported the state of the node.
	Reported func()
}

// Agent serves one node. Agent is not safe for use by several goroutines.
type Agent struct {
	Config
	files  state.Files
	check  *HealthChecker
	runner apply.Runner
	// phase is the agent's phase. status is the agent's status without the phase. Each call of reconcile determines the
	// status anew.
	phase  report.Progress
	status report.Status
	// failed is the config whose steps failed last, or "". The node stays Degraded while the agent retries that
	// config.
	failed string
	// waiting is the request that the controller has not acknowledged yet. unanswered is the reboot of which it is
	// unknown whether the machine has accepted it.
	waiting, unanswered SyncRequest
	// outage is the time without an answer of the API server. node is the Node that the present call of reconcile has
	// read; nil if it has read none.
	outage Outage
	node   *report.Node
	// started is true after the first-boot files were removed. compared is true once the agent has compared the
	// machine with its config.
	started, compared bool
}

// New returns an agent. The agent does nothing before Run or Sync.
func New(c Config) *Agent {
	if c.Node != "" {
		c.Log = c.Log.With("node", c.Node)
	}
	a := &Agent{Config: c, files: state.Files{Host: c.Host}}
	a.check = NewHealthChecker(c.Health, a.files, c.Log, func(ctx context.Context) error {
		_, err := c.Cluster.Node(ctx)
		return err
	})
	checkHealth := func(ctx context.Context, rec host.Record) error {
		a.enter(report.Checking)
		restoreStatus(a, rec)
		publishStatus(a)
		return a.check.Check(ctx, rec)
	}
	h := c.Host
	h.Power = namedReboot{h.Power, a}
	steps := &stepLog{log: c.Log}
	a.runner = apply.Runner{
		Host: h, HealthCheck: checkHealth, OnRejected: a.check.RolledBack,
		OnBegin: steps.begin, OnEnd: steps.end,
		OnStep: func(s host.Step, undone bool) { c.reportStep(steps, s, undone) },
	}
	a.runner.MayReboot = a.mayReboot
	return a
}

// reportStep logs a step. If the step affects services, reportStep also emits an event.
func (c Config) reportStep(log *stepLog, s host.Step, undone bool) {
	log.step(s, undone)
	switch {
	case undone:
	case s.Verb == host.Reload:
		c.event(report.EventServiceReload, "reloaded %s", s.Target)
	case s.Verb == host.Restart:
		c.event(report.EventServiceRestart, "restarted %s", s.Target)
	case s.Verb == host.SetImage:
		c.event(report.EventOSUpdateStaged, "staged OS image %s for the next boot", s.After.Word)
	}
}

// Phase returns the agent's phase.
func (a *Agent) Phase() report.Phase { return a.phase.Phase() }

// enter changes the agent's phase.
func (a *Agent) enter(p report.Phase) {
	from := a.phase.Phase()
	if err := a.phase.Enter(p); err != nil {
		a.Log.Error("bug in the daemon", "err", err)
	}
	if from != p {
		a.Log.Debug("phase", "from", string(from), "to", string(p))
	}
}

// Run syncs whenever the Node or a watched file changes, until the context ends (nil) or the machine reboots
// (ErrRebooting). Run first finishes an update that has already started. After a failure, Run waits before the next
// attempt, unless another config is desired meanwhile.
func (a *Agent) Run(ctx context.Context, changed <-chan struct{}) error {
	waiting := Signals{Changed: changed, Fetched: a.Fetch.Changed()}
	defer stopFetching(a)
	if a.Drift != nil {
		waiting.Disturbed = a.Drift.Disturbed()
	}
	if a.Trust != nil {
		waiting.Trust = a.Trust.Changed()
	}
	pause := time.Duration(0)
	for {
		early := syncTrust(ctx, a)
		desired, err := a.Sync(ctx)
		if !early && ctx.Err() == nil {
			syncTrust(ctx, a) // an update was under way
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrRebooting):
			return err
		case err == nil:
			if a.failed == "" || a.failed != desired { // A further try of a failed config waits for its drain here.
				pause = 0
			}
			waiting.Wait(ctx, true, a.untilResync())
			continue
		}
		pause = min(max(2*pause, MinBackoff), MaxBackoff)
		if errors.As(err, new(*rebootUnknownError)) {
			a.Log.Warn("looking again whether the machine reboots", "in", pause, "err", err)
			waiting.Wait(ctx, false, pause)
			continue
		}
		stepsFailed, level := desired != "" && a.failed == desired, slog.LevelDebug
		if stepsFailed {
			level = slog.LevelError
		}
		if errors.Is(err, report.ErrUnreachable) || errors.As(err, new(*fetch.SyncError)) {
			a.Log.Log(ctx, level, "the next sync follows", "in", pause, "err", err)
			// If steps failed, they and their rollback have changed watched files, so changes of these files are
			// ignored.
			waiting.Wait(ctx, !stepsFailed, jitter(pause))
			continue
		}
		a.Log.Error("update failed, retrying", "config", desired, "in", pause, "err", err)
		if a.waitFailed(ctx, &waiting, desired, pause) {
			pause = 0
		}
	}
}

// syncTrust writes the files that the machine gets beside its config. It returns false if an update is under way.
func syncTrust(ctx context.Context, a *Agent) (done bool) {
	if a.Trust == nil {
		return true
	}
	defer a.Fetch.Lock()()
	turn := trust.Turn{Rules: a.Cluster.Rules, OnStep: a.runner.OnStep, Now: time.Now()}
	if a.node != nil && a.node.Current == "" && a.node.Desired == "" {
		seed, err := readInitialAnnotations(a.Host.Files)
		turn.Unconfigured = err == nil && seed[v1alpha1.CurrentConfigAnnotation] == ""
	}
	return a.Trust.Sync(ctx, turn)
}

// stopFetching ends the downloads in the background.
func stopFetching(a *Agent) {
	defer a.Fetch.Lock()()
	a.Fetch.Stop()
}

// untilResync returns how long the agent waits for a change. Nothing tells it when something that refuses a config is
// gone from the machine, such as a mask.
func (a *Agent) untilResync() time.Duration {
	onNode := func(r disruption.Refusal) bool { return r.Check != "" }
	if a.Phase() == report.Refused && slices.ContainsFunc(a.status.Refusals, onNode) {
		return jitter(MaxBackoff)
	}
	return resyncInterval
}

// jitter adds a random part to a pause, so that nodes do not all send requests at once after an outage.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// waitFailed waits for the pause to end or a watched file to change. waitFailed returns true at once in three cases:
// another config is desired, the Node requests a retry, or the Node can be read after a failed read.
func (a *Agent) waitFailed(ctx context.Context, s *Signals, failed string, pause time.Duration) bool {
	until := time.Now().Add(pause)
	for s.Wait(ctx, failed == "" || a.failed != failed, time.Until(until)) {
		if node, err := a.Cluster.Node(ctx); err == nil && (a.node == nil || node.Desired != failed ||
			node.Retry != a.node.Retry) {
			return true
		}
	}
	return false
}

// resolved names the remote files of a config as the machine names their contents. It passes an error on.
func (c Config) resolved(at plan.Config, err error) (plan.Config, error) {
	at.Config = c.Fetch.Resolve(at.Config)
	return at, err
}

// reportWaiting reports why the node is not drained yet.
func reportWaiting(ctx context.Context, a *Agent, text string) error {
	a.outage.MarkReachable(a.Log)
	setStatus(a, v1alpha1.StateWorking, text)
	publishStatus(a)
	return a.reportState(ctx, v1alpha1.StateWorking, text)
}

// Events writes Kubernetes events about the Node. Events returns at once; events that cannot be written are lost.
type Events interface {
	// Event reports one event. The message contains no secrets.
	Event(reason report.EventReason, message string)
}

// Metrics has the daemon's metrics.
type Metrics interface {
	// State records the state and the reason that the agent reported on the Node.
	State(state, reason string)
	// Update records how the last update ended; nil is success.
	Update(config string, err error)
	// Drift records when the drift began; the zero time means that there is no drift.
	Drift(at time.Time)
	// Reboot records a request to reboot the machine. An error means that the machine did not accept the request.
	Reboot(err error)
	// Pivot records why a part of the OS could not be staged.
	Pivot(err error)
	// Boot records which OS runs.
	Boot(os, version string)
}

// event emits an event if Events is set.
func (c Config) event(reason report.EventReason, format string, args ...any) {
	if c.Events != nil {
		c.Events.Event(reason, fmt.Sprintf(format, args...))
	}
}

// The files that a first boot leaves.
const (
	encapsulatedPath = "/etc/ignition-machine-config-encapsulated.json"
	// ignitionPresetPath is the preset file with the units that the first config enables and disables. The file must
	// not stay, because it would override later presets. With it, an updated machine would enable other units than a
	// machine that first booted with the same config.
	ignitionPresetPath = "/etc/systemd/system-preset/20-ignition.preset"
)

// start runs once after the daemon starts. start moves the files of the first boot away and reports which OS runs.
// Units stay enabled by their links.
func (a *Agent) start(ctx context.Context) error {
	text, err := a.Host.Files.Read(encapsulatedPath)
	if err == nil {
		err = a.Host.Files.Write(encapsulatedPath+".bak", host.Entry{Kind: host.File, Mode: 0o600}, text)
		if err == nil {
			err = a.files.Host.Disk.Flush(ctx)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("moving %s aside: %w", encapsulatedPath, err)
	}
	if err := a.files.Remove(ctx, encapsulatedPath, ignitionPresetPath); err != nil {
		return err
	}
	a.started = true
	if a.Metrics != nil {
		release := apply.Release(a.Host.Files)
		a.Metrics.Boot(release["ID"], release["VERSION_ID"])
	}
	return nil
}

// SyncRequest is a request to the controller that the agent waits for.
type SyncRequest struct {
	// what is the requested action. since is the start of the request.
	what  string
	since time.Time
}

// Elapsed returns how long the agent has waited for a request. For a different request than before, the time starts at
// zero. The parameter began is when the controller started to act on the request; zero if unknown.
func (w *SyncRequest) Elapsed(what string, began time.Time) time.Duration {
	if w.what != what {
		*w = SyncRequest{what, time.Now()}
	}
	if !began.IsZero() && began.Before(w.since) {
		w.since = began
	}
	return time.Since(w.since)
}

// Outage is an outage of the API server, or of a part of it.
type Outage struct {
	// Since is the start of the outage; zero while the API server answers.
	Since time.Time
	// logged is the last message of the outage.
	logged string
}

// MarkUnreachable records a missing answer and returns how long the outage has lasted. MarkUnreachable logs the start
// of the outage, and another message. An empty message is not logged after the start.
func (s *Outage) MarkUnreachable(log *slog.Logger, message string, args ...any) time.Duration {
	if s.Since.IsZero() {
		s.Since, s.logged = time.Now(), ""
	}
	if message != "" && message != s.logged {
		log.Warn(message, args...)
		s.logged = message
	}
	return time.Since(s.Since)
}

// MarkReachable records that the API server answered and logs how long the outage lasted.
func (s *Outage) MarkReachable(log *slog.Logger) {
	if !s.Since.IsZero() {
		log.Info("the API server answers again", "after", time.Since(s.Since).Round(time.Second))
	}
	s.Since = time.Time{}
}
