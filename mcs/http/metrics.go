package http

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts responses and connections. It is a prometheus.Collector. All methods may be called concurrently.
type Metrics struct {
	served, refused atomic.Int64

	requests    *prometheus.CounterVec
	content     *prometheus.CounterVec
	refusals    *prometheus.CounterVec
	connections *prometheus.CounterVec
	bytes       prometheus.Counter
	broken      prometheus.Counter
}

func newMetrics() *Metrics {
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bunsen_mcs_" + name, Help: help}, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "bunsen_mcs_" + name, Help: help})
	}
	return &Metrics{
		requests: vector("requests_total", "Responses to requests for a config. The pool is empty where the "+
			"request names no known pool.", "pool", "code"),
		content: vector("content_requests_total", "Responses to requests for a file of the content store, of "+
			"nodes and of new machines.", "code"),
		refusals: vector("refusals_total", "Requests for a config that the server refused, by reason.", "reason"),
		connections: vector("closed_connections_total", "Connections that the server closed to protect itself, by "+
			"reason.", "reason"),
		bytes: counter("served_bytes_total", "Bytes of configs that the server sent."),
		broken: counter("broken_transfers_total", "Configs that the server sent incompletely because the "+
			"connection ended."),
	}
}

// Served returns how many configs the server has sent completely.
func (c *Metrics) Served() int64 { return c.served.Load() }

// Refused returns how many requests the server has refused, without those that came before it had read the cluster.
func (c *Metrics) Refused() int64 { return c.refused.Load() }

// Describe sends the descriptions of the metrics, for Prometheus' client library.
func (c *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, part := range c.parts() {
		part.Describe(to)
	}
}

// Collect sends the values of the metrics, for Prometheus' client library.
func (c *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, part := range c.parts() {
		part.Collect(to)
	}
}

func (c *Metrics) parts() []prometheus.Collector {
	return []prometheus.Collector{c.requests, c.content, c.refusals, c.connections, c.bytes, c.broken}
}

// connectionClosed counts nothing if the Metrics are nil.
func (c *Metrics) connectionClosed(reason string) {
	if c != nil {
		c.connections.WithLabelValues(reason).Inc()
	}
}

func (c *Metrics) add(a *response) {
	// Clients could create any number of counters with invented names of pools.
	pool := ""
	if a.known {
		pool = a.pool
	}
	if a.isContent {
		c.content.WithLabelValues(strconv.Itoa(a.status)).Inc()
	} else {
		c.requests.WithLabelValues(pool, strconv.Itoa(a.status)).Inc()
	}
	c.bytes.Add(float64(a.sent))
	switch {
	case !a.isServed():
		reason := httpErrorOf(a.err).reason
		if c.refusals.WithLabelValues(reason).Inc(); reason != notSynced {
			c.refused.Add(1)
		}
	case a.err != nil:
		c.broken.Inc()
	case a.sent > 0 && a.daemon == "" && !a.isContent:
		c.served.Add(1)
	}
}
