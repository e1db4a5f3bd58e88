package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/report"
	"github.com/bunsen-os/bunsen/mcd/secrets"
	"github.com/bunsen-os/bunsen/mcd/state"
	"github.com/bunsen-os/bunsen/mcd/trust"
)

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
	// ConfigPatience is how long the node waits for a config that it cannot read before its update fails; 0: 10
	// minutes, which is long enough for a server to restart or to read new labels.
	ConfigPatience time.Duration
	// Reported is called each time the agent has read the Node and its config, and has reported the state of the node.
	Reported func()
}

// Agent serves one node. It is not safe for use by several goroutines.
type Agent struct {
	Config
	files     state.Files
	report    *nodeReport
	firstBoot *firstBoot
	drift     *driftCheck
	updater   *updater
}

// New returns an agent. It does nothing before Run or Sync.
func New(c Config) *Agent {
	if c.Node != "" {
		c.Log = c.Log.With("node", c.Node)
	}
	files := state.Files{Host: c.Host}
	report := &nodeReport{
		name: c.Node, cluster: c.Cluster, files: files, log: c.Log,
		events: c.Events, metrics: c.Metrics, publisher: c.Status,
	}
	firstBoot := &firstBoot{files: files, cluster: c.Cluster, log: c.Log}
	configs := configs{
		cluster: c.Cluster, host: c.Host, files: files, fetch: c.Fetch, firstBoot: firstBoot, log: c.Log,
		patience: cmp.Or(c.ConfigPatience, configPatience),
	}
	drains := &drains{cluster: c.Cluster, report: report, log: c.Log}
	check := newHealthChecker(c.Health, files, c.Log, func(ctx context.Context) error {
		_, err := c.Cluster.Node(ctx)
		return err
	})
	runner := newRunner(c.Host, check, drains, report)
	drift := &driftCheck{
		host: c.Host, configs: configs, trust: c.Trust, log: c.Log,
		repairs: apply.Runner{
			Host: c.Host, OnStep: runner.OnStep, OnBegin: runner.OnBegin, OnEnd: runner.OnEnd,
			OnWarning: runner.OnWarning,
		},
		scan: drift.Scanner{
			Host: c.Host, Cluster: c.Cluster, Watcher: c.Drift, Log: c.Log, OnStep: runner.OnStep, Event: report.event,
			DriftedSince: report.driftedSince,
		},
	}
	return &Agent{
		Config: c, files: files, report: report, firstBoot: firstBoot, drift: drift,
		updater: &updater{
			cluster: c.Cluster, host: c.Host, files: files, configs: configs, fetch: c.Fetch, drift: drift,
			drains: drains, health: check, runner: runner, report: report, log: c.Log, alive: c.Reported,
		},
	}
}

// Phase returns the agent's phase.
func (a *Agent) Phase() report.Phase { return a.report.phase.Phase() }

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
	// unreadReportAfter is how long the node waits before it reports that it cannot read its config.
	unreadReportAfter = 5 * time.Second
	// configPatience is the default of Config.ConfigPatience.
	configPatience = 10 * time.Minute
)

// ErrRebooting reports that the machine reboots. The caller stops, and a new agent starts after the boot.
var ErrRebooting = errors.New("the machine is rebooting")

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
