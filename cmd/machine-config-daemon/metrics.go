package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/metrics"
)

// defaultMetrics is the default address for metrics. The daemon of the Machine Config Operator uses the same address.
const defaultMetrics = "127.0.0.1:8797"

// serveMetrics serves the metrics and the answers to probes until the context ends. With --metrics "", serveMetrics
// serves nothing. If the address is in use, serveMetrics logs this and tries again later, because another daemon on the
// machine may end soon.
func serveMetrics(ctx context.Context, address string, log *slog.Logger,
	ready func() error,
) (*metrics.Set, error) {
	set := metrics.New(time.Now)
	if address == "" {
		return set, nil
	}
	l, err := metrics.Listen(address)
	var taken *net.OpError
	switch {
	case errors.As(err, &taken):
		log.Error("metrics are not served yet", "err", err)
	case err != nil:
		return nil, &usageError{Err: err}
	}
	go func() {
		for l == nil && sleep(ctx, metricsRetry) == nil {
			l, _ = metrics.Listen(address)
		}
		if l == nil {
			return
		}
		if err := set.Serve(ctx, l, ready); err != nil {
			log.Error("metrics are not served any more", "err", err)
		}
	}()
	return set, nil
}

// metricsRetry is the pause before the daemon listens again for metrics.
const metricsRetry = 10 * time.Second

// readiness decides whether the daemon works. The kubelet probes the daemon, so that an upgrade of the daemon stops if
// the new daemon does not work.
type readiness struct {
	// reported is true once the daemon has reported the state of its node.
	reported atomic.Bool
	// lastAnswer returns when the API server last answered.
	lastAnswer func() time.Time
	now        func() time.Time
}

// check returns an error that says why the daemon does not work. check tolerates an outage of the API server for the
// same time as the readers of the daemon's heartbeat.
func (r *readiness) check() error {
	if !r.reported.Load() {
		return errors.New("the daemon has not reported the state of its node yet")
	}
	if age := r.now().Sub(r.lastAnswer()); age > v1alpha1.DaemonSilentAfter {
		return fmt.Errorf("the API server has not answered for %s", age.Round(time.Second))
	}
	return nil
}
