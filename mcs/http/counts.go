package http

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts are how many answers there were of /config/. They are a prometheus.Collector, for whoever has a registry. All
// methods may be called at once.
type Counts struct {
	served, refused atomic.Int64

	requests *prometheus.CounterVec
	refusals *prometheus.CounterVec
	bytes    prometheus.Counter
	broken   prometheus.Counter
}

func newCounts() *Counts {
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bunsen_mcs_" + name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "bunsen_mcs_" + name, Help: help})
	}
	return &Counts{
		requests: vector("requests_total", "Answers to requests for a config. The pool is empty where none was told.", "pool", "code"),
		refusals: vector("refusals_total", "Requests for a config that were turned away, by the reason in a word.", "reason"),
		bytes:    counter("served_bytes_total", "Bytes of configs that were sent."),
		broken:   counter("broken_transfers_total", "Configs that were not sent whole, because the connection ended."),
	}
}

// Served is how many configs were sent whole.
func (c *Counts) Served() int64 { return c.served.Load() }

// Refused is how many requests were turned away, for whatever reason.
func (c *Counts) Refused() int64 { return c.refused.Load() }

// Describe tells what is counted.
func (c *Counts) Describe(to chan<- *prometheus.Desc) {
	for _, part := range c.parts() {
		part.Describe(to)
	}
}

// Collect tells the counts.
func (c *Counts) Collect(to chan<- prometheus.Metric) {
	for _, part := range c.parts() {
		part.Collect(to)
	}
}

func (c *Counts) parts() []prometheus.Collector {
	return []prometheus.Collector{c.requests, c.refusals, c.bytes, c.broken}
}

func (c *Counts) add(a *answer) {
	pool := "" // what is no pool would let anybody make as many counters as they like
	if a.known {
		pool = a.pool
	}
	c.requests.WithLabelValues(pool, strconv.Itoa(a.status)).Inc()
	c.bytes.Add(float64(a.sent))
	switch {
	case !a.served():
		c.refused.Add(1)
		c.refusals.WithLabelValues(told(a.err).reason).Inc()
	case a.err != nil:
		c.broken.Inc()
	case a.sent > 0:
		c.served.Add(1)
	}
}
