package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The bounds that keep one client, slow or hostile, from holding more than its share. A body of some MiB has to pass
// the slowest management network within sendTimeout.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 15 * time.Second
	sendTimeout   = 5 * time.Minute
	idleTimeout   = 30 * time.Second
	headerBytes   = 16 << 10
	stopTimeout   = 15 * time.Second
)

// Server answers machines over HTTPS, within bounds.
type Server struct {
	// Handler answers; see Routes.
	Handler http.Handler
	// TLS has the certificate; see Certificates.
	TLS *tls.Config
	// Log takes what goes wrong below HTTP.
	Log *slog.Logger
}

// Serve answers on a listener until the context ends, then lets requests under way finish, for at most 15 seconds. It
// closes the listener. The error is nil after a stop that was asked for.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true) // one request per machine: HTTP/2 would bring only more to attack
	server := &http.Server{
		Handler:           s.Handler,
		TLSConfig:         s.TLS,
		Protocols:         protocols,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      sendTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(l, "", "") }()
	select {
	case err := <-done:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("stopping: %w", err), server.Close())
	}
	return nil
}
