package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/fetch"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/state"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

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
