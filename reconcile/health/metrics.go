package health

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"

	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
)

// MetricsConfig has the dependencies of Metrics.
type MetricsConfig struct {
	// the manager's cache, for each scrape
	Reader client.Reader
	// Elected is closed once this process leads; nil: it does. Before, it exposes no metrics.
	Elected <-chan struct{}
	Now     func() time.Time
	// the last listing of each repository; may be nil
	Listings func() map[string]v1alpha1.SourceLook
	// for the daemons' heartbeats, at most once a minute; nil: none
	Live client.Reader
	// also read by the rollout
	Heartbeats *Heartbeats
	// of nodes for which no MachineConfig sets an image
	OSImage string
}

// Metrics collects the controllers' metrics for Prometheus. Each scrape reads the objects of the cluster, so a restart
// loses nothing and a deleted object has no series. The controllers report values that no object has through its
// methods. Those of a nil Metrics do nothing.
//
// Reads: MachineConfigPool, MachineConfig, Node, GitSource, MachineConfigNode (heartbeats)
// Writes: nothing
type Metrics struct {
	config MetricsConfig
	descs  map[string]*prometheus.Desc
	// from commit to rendered config, and to the end of the rollout
	rendered, rolledOut *prometheus.HistogramVec
	// decisions about new machines
	joins *prometheus.CounterVec

	mu sync.Mutex
	// last reports by the name of the pool, node or controller
	pools       map[string]poolReport
	drains      map[string]bool
	controllers map[string]controllerReport
	verdicts    []v1alpha1.Verdict
}

type poolReport struct {
	counts poolstate.Counts
	blocks []poolstate.Block
	window schedule.WindowState
}

// controllerReport is from the last reconciliation.
type controllerReport struct {
	object, state string
	at            time.Time
}

// NewMetrics returns Metrics without values.
func NewMetrics(c MetricsConfig) *Metrics {
	m := &Metrics{
		config: c, descs: map[string]*prometheus.Desc{},
		pools: map[string]poolReport{}, drains: map[string]bool{}, controllers: map[string]controllerReport{},
	}
	for _, f := range families {
		m.descs[f.name] = prometheus.NewDesc(f.name, f.help, f.labels, nil)
	}
	m.joins = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "bunsen_join_decisions_total", Help: "Certificate requests of new machines that the controller " +
			"decided, by decision and reason.",
	}, []string{"decision", "reason"})
	vec := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencyBuckets},
			[]string{"pool"})
	}
	m.rendered = vec("bunsen_commit_to_rendered_seconds", "From the time of a commit to its rendered config, for "+
		"commits that gave the pool a new one.")
	m.rolledOut = vec("bunsen_commit_to_rolled_out_seconds", "From the time of a commit to the moment when every "+
		"node of the pool ran it.")
	return m
}

// latencyBuckets are in seconds.
var latencyBuckets = []float64{5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400}

// Register adds m to a registry. It replaces a Metrics that was registered before.
func (m *Metrics) Register(r prometheus.Registerer) error {
	r.Unregister(m)
	if err := r.Register(m); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// Pool reports the numbers of nodes of a pool, what blocks its rollout, and the state of its maintenance windows.
func (m *Metrics) Pool(name string, c poolstate.Counts, blocks []poolstate.Block, w schedule.WindowState) {
	m.update(func() { m.pools[name] = poolReport{c, blocks, w} })
}

// Verdicts reports the verdicts on all pools and GitSources.
func (m *Metrics) Verdicts(all []v1alpha1.Verdict) {
	m.update(func() { m.verdicts = all })
}

// Rendered reports the time from a commit to the new rendered config of a pool.
func (m *Metrics) Rendered(pool string, took time.Duration) {
	if m != nil {
		m.rendered.WithLabelValues(pool).Observe(max(took, 0).Seconds())
	}
}

// RolledOut reports the time from a commit until every node of the pool runs the commit's config.
func (m *Metrics) RolledOut(pool string, since time.Duration) {
	if m != nil {
		m.rolledOut.WithLabelValues(pool).Observe(max(since, 0).Seconds())
	}
}

// DrainError reports whether the drain of a node has failed for too long.
func (m *Metrics) DrainError(node string, on bool) {
	m.update(func() {
		if delete(m.drains, node); on {
			m.drains[node] = true
		}
	})
}

// JoinDecided counts one decision about the certificate request of a new machine.
func (m *Metrics) JoinDecided(approved bool, reason string) {
	if m == nil {
		return
	}
	decision := "denied"
	if approved {
		decision = "approved"
	}
	m.joins.WithLabelValues(decision, reason).Inc()
}

// Forget removes the values of a deleted pool.
func (m *Metrics) Forget(pool string) {
	m.update(func() {
		delete(m.pools, pool)
		m.rendered.DeleteLabelValues(pool)
		m.rolledOut.DeleteLabelValues(pool)
	})
}

// Watch wraps a reconciler and reports the outcome of each reconciliation.
func (m *Metrics) Watch(name string, inner reconcile.Reconciler) reconcile.Func {
	return func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		res, err := inner.Reconcile(ctx, req)
		m.update(func() {
			report := controllerReport{req.Name, "Synced", m.config.Now()}
			if err != nil {
				report.state = "Failed"
			}
			m.controllers[name] = report
		})
		return res, err
	}
}

// update locks the stored reports for a change.
func (m *Metrics) update(change func()) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *Metrics) leads() bool {
	if m.config.Elected == nil {
		return true
	}
	select {
	case <-m.config.Elected:
		return true
	default:
		return false
	}
}

// family describes one gauge. NewMetrics creates the others: two histograms and a counter.
type family struct {
	name, help string
	labels     []string
}

// families: all gauges. Those with the prefixes mco_, mcc_ and os_ are the original machine-config-operator's.
var families = []family{
	{
		"mco_state", "1 for each node, with its pool and its daemon's state and reason.",
		[]string{"node", "pool", "state", "reason"},
	},
	{"mco_machine_count", "Nodes of the pool.", []string{"pool"}},
	{"mco_updated_machine_count", "Nodes that run the pool's config.", []string{"pool"}},
	{"mco_degraded_machine_count", "Nodes that report a failure.", []string{"pool"}},
	{"mco_unavailable_machine_count", "Nodes that count against the pool's budget.", []string{"pool"}},
	{
		"os_image_url_override", "1 if the pool's config names another OS image than the controller's default.",
		[]string{"pool"},
	},
	{"mcc_drain_err", "1 for a node whose drain fails for an hour or more.", []string{"node"}},
	{"mcc_pool_alert", "1 for a node in no pool, or in another pool than its labels select.", []string{"node"}},
	{"mcc_sub_controller_state", "When a controller last reconciled, in seconds since 1970, which object, and with which outcome.", []string{"subcontroller", "state", "object"}},

	{"bunsen_pool_nodes", "Nodes of the pool by what they do: updated, unready (updated, and not Ready or cordoned), waiting, draining, rebooting, applying, degraded, back (in the config to which the pool was reverted), unknown (the daemon or the kubelet does not report).", []string{"pool", "state"}},
	{"bunsen_daemon_silent_seconds", "Age of the last heartbeat of a daemon that has stopped reporting; absent for the others.", []string{"node", "pool"}},
	{"bunsen_pool_blocked", "1 for each cause that blocks the pool's rollout.", []string{"pool", "cause"}},
	{"bunsen_outcome", "Outcome of each pool and GitSource, and the worst of them for the kind Cluster: 0 Fine, 1 Progressing, 2 Waiting, 3 Blocked, 4 Unknown, 5 Degraded.", []string{"kind", "name"}},
	{"bunsen_window_open", "1 while the pool's maintenance windows allow its rollout.", []string{"pool"}},
	{
		"bunsen_window_next_seconds", "Seconds until bunsen_window_open changes; absent if it does not within a year.",
		[]string{"pool"},
	},
	{"bunsen_rollout_step", "Steps that the pool's rollout has completed, with the canary.", []string{"pool"}},
	{
		"bunsen_rollout_failures", "Nodes that report a failure and are assigned the target config of the pool.",
		[]string{"pool"},
	},
	{"bunsen_rollout_verdict", "1 if a rollout was halted or reverted, with the verdict.", []string{"pool", "verdict"}},
	{"bunsen_drain_seconds", "How long the drain of a node has taken so far.", []string{"node", "pool"}},
	{"bunsen_drain_waiting_pods", "Pods that hold up the drain of a node.", []string{"node", "pool"}},
	{
		"bunsen_node_drift", "Differences between a node and its config; absent if there are none.",
		[]string{"node", "pool"},
	},
	{"bunsen_drift_files", "Differences between the nodes of the pool and their configs.", []string{"pool"}},
	{"bunsen_trust_nodes", "Nodes of the pool whose certificates or pull secret beside the config have a problem: expiring, conflict (the config names the path), blocked or failed.", []string{"pool", "problem"}},
	{
		"bunsen_suspended", "1 for each GitSource that is suspended and each MachineConfigPool that is paused.",
		[]string{"kind", "name"},
	},
	{"bunsen_pool_held", "1 for each pool that a user holds at the config of an earlier revision.", []string{"pool"}},

	{
		"bunsen_source_info", "1 for each GitSource that has applied a revision.",
		[]string{"source", "url", "revision", "verified"},
	},
	{"bunsen_source_ready", "1 if the newest revision of the GitSource is on the cluster, else 0.", []string{"source"}},
	{"bunsen_source_interval_seconds", "Interval at which the GitSource's repository is polled.", []string{"source"}},
	{
		"bunsen_source_last_look_timestamp_seconds",
		"When the GitSource's repository was last polled, with or without an answer, in seconds since 1970.",
		[]string{"source"},
	},
	{
		"bunsen_source_stalled", "1 if a user has to change something before the GitSource continues, else 0.",
		[]string{"source"},
	},
	{"bunsen_source_behind", "1 if a newer revision than the applied one exists, else 0.", []string{"source"}},
	{
		"bunsen_source_commit_timestamp_seconds", "Time of the applied commit, in seconds since 1970.",
		[]string{"source"},
	},
}
