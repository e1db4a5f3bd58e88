package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
)

// Server answers machines over HTTPS, within bounds.
type Server struct {
	// Handler answers; see Routes.
	Handler http.Handler
	// TLS has the certificate. What else it says of versions and suites is narrowed to what is safe today.
	TLS *tls.Config
	// ClientCAs are whose client certificates are believed; nil: none are asked for.
	ClientCAs *ClientCAs
	// Bounds of each client.
	Bounds Bounds
	// Log takes what goes wrong below HTTP.
	Log *slog.Logger
}

// suites are those of TLS 1.2 with forward secrecy and authenticated encryption; TLS 1.3 has no others.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// Serve answers on a listener until the context ends, then lets requests under way finish, for at most Bounds.Stop. It
// closes the listener. The error is nil after a stop that was asked for.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	b := s.Bounds.orDefault()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true) // one request per machine: HTTP/2 would bring only more to attack
	server := &http.Server{
		Handler:           s.Handler,
		TLSConfig:         s.tls(),
		Protocols:         protocols,
		ReadHeaderTimeout: b.Header, // net/http bounds the handshake by the same
		ReadTimeout:       b.Read,
		WriteTimeout:      b.Send,
		IdleTimeout:       b.Idle,
		MaxHeaderBytes:    b.HeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(bounded(l, b, s.Log), "", "") }()
	select {
	case err := <-done:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.Stop)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("stopping: %w", err), server.Close())
	}
	return nil
}

// tls is the configuration to serve with. Where there are authorities, it follows them: each handshake has those of its
// moment, and a session that is resumed has to hold before them as well.
func (s Server) tls() *tls.Config {
	config := s.TLS.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.CipherSuites = suites
	config.DynamicRecordSizingDisabled = true // a config is of use only whole: small first records would bring nothing
	config.NextProtos = []string{"http/1.1"}  // net/http does not get to add it to the configuration of one handshake
	if s.ClientCAs == nil {
		return config
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	var current atomic.Pointer[tls.Config]
	each := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool := s.ClientCAs.Pool()
		if c := current.Load(); c != nil && c.ClientCAs == pool {
			return c, nil
		}
		c := each.Clone()
		c.ClientCAs = pool
		current.Store(c)
		return c, nil
	}
	return config
}
