package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// errNotLoopback is the error for a metrics address at which other machines could read the metrics.
var errNotLoopback = errors.New("metrics are served on loopback only: use an address such as 127.0.0.1:8798, and a " +
	"proxy with authentication on this host for other hosts")

// listenMetrics listens at the address of --metrics-listen.
func listenMetrics(address string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err == nil && !at.IP.IsLoopback() {
		err = errNotLoopback
	}
	if err != nil {
		return nil, fmt.Errorf("opening --metrics-listen %s: %w", address, err)
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("opening --metrics-listen: %w", err)
	}
	return l, nil
}

// serveMetrics serves /metrics on a listener until the context ends.
func serveMetrics(ctx context.Context, l net.Listener, counts prometheus.Collector) error {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		counts, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("preparing metrics: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}
