package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// ErrNotLoopback tells that metrics were asked to be served to other machines.
var ErrNotLoopback = errors.New("metrics are served on loopback only: give an address such as 127.0.0.1:8797, and let a proxy with authentication on this machine speak to others")

// Listen opens an address, which must be a loopback one.
func Listen(address string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of metrics %q: %w", address, err)
	}
	if !at.IP.IsLoopback() {
		return nil, fmt.Errorf("serving metrics on %q: %w", address, ErrNotLoopback)
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("serving metrics: %w", err)
	}
	return l, nil
}

// Serve answers on a listener until the context ends, and closes it.
func (s *Set) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck,gosec // nothing is under way that counts
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

// ServeHTTP answers GET /metrics, and nothing else.
func (s *Set) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/metrics":
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
	default:
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, s.String()) // whoever asked has gone
	}
}
