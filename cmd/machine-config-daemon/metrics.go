package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/bunsen-os/bunsen/mcd/metrics"
)

// defaultMetrics is where the original daemon serves its metrics too.
const defaultMetrics = "127.0.0.1:8797"

// serveMetrics serves what is counted until the context ends; with --metrics "" it is only counted. An address that is
// taken is told, and is no reason to leave the machine alone.
func (o *options) serveMetrics(ctx context.Context, log *slog.Logger) (*metrics.Set, error) {
	set := metrics.New(time.Now)
	if o.metrics == "" {
		return set, nil
	}
	l, err := metrics.Listen(o.metrics)
	var taken *net.OpError
	switch {
	case errors.As(err, &taken):
		log.Error("metrics are not served", "err", err)
		return set, nil
	case err != nil:
		return nil, &usageError{err}
	}
	go func() {
		if err := set.Serve(ctx, l); err != nil {
			log.Error("metrics are not served any more", "err", err)
		}
	}()
	return set, nil
}
