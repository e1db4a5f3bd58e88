package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/window"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// MetricsConfig is what Metrics needs.
type MetricsConfig struct {
	// Reader is the manager's cache: pools, nodes and sources are read from it when somebody asks for the metrics.
	Reader client.Reader
	// Elected is closed once this process leads; before that it has nothing to tell. nil: it leads.
	Elected <-chan struct{}
	// Now is the clock.
	Now func() time.Time
	// Looks are the last looks at the repositories; nil: none.
	Looks func() map[string]v1alpha1.SourceLook
	// Live reads the daemons' heartbeats past the cache, at most once a minute; nil: they are not read.
	Live client.Reader
	// OSImage that nodes get where no MachineConfig sets one.
	OSImage string
}

// Metrics is what the controllers tell Prometheus, in two ways: what follows from the objects of the cluster is read off
// them at each scrape, so that a restart loses nothing and what is gone has no series; the rest is told by the methods.
// A nil Metrics takes everything and tells nothing.
//
// Reads: MachineConfigPool, MachineConfig, Node, GitSource, MachineConfigNode (heartbeats)
// Writes: nothing
type Metrics struct {
	config MetricsConfig
	descs  map[string]*prometheus.Desc
	// rendered and rolledOut are commit to rendered, and commit to rolled out.
	rendered, rolledOut *prometheus.HistogramVec

	daemons *daemonReports

	mu sync.Mutex
	// pools, drains and controllers are what was told last, by the name of the pool, node and controller.
	pools       map[string]poolTold
	drains      map[string]bool
	controllers map[string]controllerTold
}

// poolTold is what the rollout controller said of a pool.
type poolTold struct {
	counts rollout.Counts
	blocks []rollout.Block
	window window.State
}

// controllerTold is a controller's last look.
type controllerTold struct {
	object, state string
	at            time.Time
}

// NewMetrics makes Metrics without any values.
func NewMetrics(c MetricsConfig) *Metrics {
	m := &Metrics{
		config: c, daemons: &daemonReports{}, descs: map[string]*prometheus.Desc{},
		pools: map[string]poolTold{}, drains: map[string]bool{}, controllers: map[string]controllerTold{},
	}
	for _, f := range families {
		m.descs[f.name] = prometheus.NewDesc(f.name, f.help, f.labels, nil)
	}
	vec := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: upToADay}, []string{"pool"})
	}
	m.rendered = vec("bunsen_commit_to_rendered_seconds", "From the time of a commit to its rendered config, for commits that gave the pool a new one.")
	m.rolledOut = vec("bunsen_commit_to_rolled_out_seconds", "From the time of a commit to the moment when every node of the pool ran it.")
	return m
}

// upToADay are the buckets of the histograms, in seconds.
var upToADay = []float64{5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400}

// Register adds m to a registry, in the place of one that was there before.
func (m *Metrics) Register(r prometheus.Registerer) error {
	r.Unregister(m)
	if err := r.Register(m); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// Pool tells the numbers of a pool, what keeps it from going on, and what its windows say.
func (m *Metrics) Pool(name string, c rollout.Counts, blocks []rollout.Block, w window.State) {
	m.tell(func() { m.pools[name] = poolTold{c, blocks, w} })
}

// Rendered tells that a commit gave the pool a new config, so long after its time.
func (m *Metrics) Rendered(pool string, took time.Duration) {
	if m != nil {
		m.rendered.WithLabelValues(pool).Observe(max(took, 0).Seconds())
	}
}

// RolledOut tells that every node of the pool runs a commit, so long after its time.
func (m *Metrics) RolledOut(pool string, since time.Duration) {
	if m != nil {
		m.rolledOut.WithLabelValues(pool).Observe(max(since, 0).Seconds())
	}
}

// DrainError tells that a drain has been failing for too long, or that it is not any more.
func (m *Metrics) DrainError(node string, on bool) {
	m.tell(func() {
		if delete(m.drains, node); on {
			m.drains[node] = true
		}
	})
}

// Forget drops a pool that is gone.
func (m *Metrics) Forget(pool string) {
	m.tell(func() {
		delete(m.pools, pool)
		m.rendered.DeleteLabelValues(pool)
		m.rolledOut.DeleteLabelValues(pool)
	})
}

// Watch tells after each look of a controller how it went.
func (m *Metrics) Watch(name string, inner reconcile.Reconciler) reconcile.Func {
	return func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		res, err := inner.Reconcile(ctx, req)
		m.tell(func() {
			told := controllerTold{req.Name, "Synced", m.config.Now()}
			if err != nil {
				told.state = "Failed"
			}
			m.controllers[name] = told
		})
		return res, err
	}
}

// tell changes what was told.
func (m *Metrics) tell(change func()) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// leads tells whether this process has anything to say.
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
