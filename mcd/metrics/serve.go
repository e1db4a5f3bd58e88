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

// ErrNotLoopback reports that the requested address is not a loopback address.
var ErrNotLoopback = errors.New("metrics are served on loopback only: give an address such as 127.0.0.1:8797, and " +
	"let a proxy with authentication on this machine speak to others")

// Listen listens on an address, which must be a loopback address.
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

// Serve answers requests on a listener until the context ends. When the context ends, Serve closes the listener. In
// addition to the metrics, Serve answers GET /healthz with 200, and GET /readyz with 200 or, if the function ready
// returns an error, with 503 and the error.
func (s *Set) Serve(ctx context.Context, l net.Listener, ready func() error) error {
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.Handle("GET /healthz", probe(func() error { return nil }))
	mux.Handle("GET /readyz", probe(ready))
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10,
	}
	stop := context.AfterFunc(ctx, func() {
		server.Close()
	}) //nolint:errcheck,gosec // nothing is under way that counts
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

// probe returns a handler that answers with 503 and the error of a check, if the check returns an error.
func probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // the client has disconnected
	}
}

// ServeHTTP answers GET /metrics, and no other request.
func (s *Set) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/metrics":
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
	default:
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, s.String()) // the client has disconnected
	}
}
