package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/bunsen-os/bunsen/mcd/metrics"
)

// defaultMetrics is the default address for metrics. The daemon of the Machine Config Operator uses the same address.
const defaultMetrics = "127.0.0.1:8797"

// serveMetrics serves the metrics and the answers to probes until the context ends. With --metrics "", serveMetrics
// serves nothing. If the address is in use, serveMetrics logs this and tries again later, because another daemon on the
// machine may end soon.
func (o *options) serveMetrics(ctx context.Context, log *slog.Logger, ready func() error) (*metrics.Set, error) {
	set := metrics.New(time.Now)
	if o.metrics == "" {
		return set, nil
	}
	l, err := metrics.Listen(o.metrics)
	var taken *net.OpError
	switch {
	case errors.As(err, &taken):
		log.Error("metrics are not served yet", "err", err)
	case err != nil:
		return nil, &usageError{err}
	}
	go func() {
		for l == nil && sleep(ctx, metricsRetry) == nil {
			l, _ = metrics.Listen(o.metrics)
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
