package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
)

// Server serves machines over HTTPS, within limits.
type Server struct {
	// Handler comes from Routes.
	Handler http.Handler
	// TLS has the certificate. Versions and cipher suites are restricted to safe ones.
	TLS *tls.Config
	// ClientCAs and NodeCAs sign the trusted client certificates of machines and of nodes; nil trusts none. Without
	// both, the server requests none.
	ClientCAs *ClientCAFile
	NodeCAs   *ClientCASet
	// AllowFrom are the only addresses, in addition to this host's own, whose connections are not closed before TLS;
	// empty allows all.
	AllowFrom []netip.Prefix
	// Limits of each source, of which four times as many connections as Limits.Requests allows requests may end without
	// a valid token or certificate. More wait before TLS.
	Limits Limits
	// Bounds of each client.
	Bounds Bounds
	// Metrics counts closed connections, unless nil.
	Metrics *Metrics
	// Log receives errors below HTTP.
	Log *slog.Logger
}

// suites are those of TLS 1.2 with forward secrecy and authenticated encryption. TLS 1.3 has only such ones.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// Serve serves on a listener, which it closes, until the context ends, and then waits for running requests, for at most
// Bounds.Stop. The error is nil then.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	b := s.Bounds.OrDefault()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true) // A machine sends one request, so HTTP/2 would only add attack surface.
	bounded := newListener(l, b, s)
	server := &http.Server{
		Handler:           bounded.handler(s.Handler),
		ConnContext:       connContext,
		TLSConfig:         s.tls(),
		Protocols:         protocols,
		ReadHeaderTimeout: b.Header, // ReadHeaderTimeout also limits the TLS handshake.
		ReadTimeout:       b.Read,
		WriteTimeout:      b.Send,
		MaxHeaderBytes:    b.HeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	// One request per connection is enough for a machine. Without keep-alive, no client can keep an idle connection, or
	// send requests without reading the responses, and each request has its client certificate verified.
	server.SetKeepAlivesEnabled(false)
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(bounded, "", "") }()
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

func newListener(l net.Listener, b Bounds, s Server) *listener {
	s.Limits.Requests.PerSecond *= connectionsPerRequest
	s.Limits.Requests.Burst *= connectionsPerRequest
	bounded := &listener{
		Listener: l, allowFrom: s.AllowFrom, limits: NewLimiter(s.Limits), wait: b.Wait,
		log: s.Log, metrics: s.Metrics, table: newConnTable(b),
	}
	bounded.throttles = map[string]*Throttle{
		closedForeign: {}, closedTooMany: {}, closedSilent: {},
		closedShare: {}, closedOverloaded: {},
	}
	bounded.room.L = &bounded.mu
	go bounded.receive()
	return bounded
}

func connContext(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// tls lets each handshake use the current client CAs, also to verify a resumed session.
func (s Server) tls() *tls.Config {
	config := s.TLS.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.CipherSuites = suites
	config.DynamicRecordSizingDisabled = true // Machines need the whole config, so small first records do not help.
	// net/http cannot add the protocol to the configuration of one handshake.
	config.NextProtos = []string{"http/1.1"}
	if s.ClientCAs == nil && s.NodeCAs == nil {
		return config
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven
	type verifying struct {
		by     clientRoots
		config *tls.Config
	}
	var current atomic.Pointer[verifying]
	each := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		by := s.roots()
		if v := current.Load(); v != nil && v.by == by {
			return v.config, nil
		}
		v := &verifying{by, each.Clone()}
		if v.config.ClientCAs = by.pool(); by == (clientRoots{}) {
			// Without CAs, none is requested: one that cannot be verified yet would fail the handshake.
			v.config.ClientAuth = tls.NoClientCert
		}
		current.Store(v)
		return v.config, nil
	}
	return config
}

func (s Server) roots() (now clientRoots) {
	if s.ClientCAs != nil {
		now.machines = s.ClientCAs.Certificates()
	}
	if s.NodeCAs != nil {
		now.nodes = s.NodeCAs.Certificates()
	}
	return now
}

// clientRoots verify client certificates in a handshake. What one authorizes depends on its CA.
type clientRoots struct{ machines, nodes *ClientCertificates }

func (b clientRoots) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, r := range []*ClientCertificates{b.machines, b.nodes} {
		if r == nil {
			continue
		}
		for _, cert := range *r {
			pool.AddCert(cert)
		}
	}
	return pool
}
