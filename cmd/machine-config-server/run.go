package main

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/certs"
	mcshttp "github.com/bunsen-os/bunsen/mcs/http"
	"github.com/bunsen-os/bunsen/mcs/shelf"
)

// program is the server while it is put together.
type program struct {
	flags
	log      *slog.Logger
	shelf    *shelf.Shelf
	listener net.Listener
	extras   *extras
	cert     *certs.Certificates
	counts   *mcshttp.Counts
	started  time.Time

	// what is known of tokens, and how machines join; nil for nothing
	tokens mcshttp.Tokens
	joiner mcshttp.Joiner
	// parts run beside the server, until after its last answer.
	parts []func(context.Context) error
	// after them, in this order
	closers []io.Closer
}

// run constructs the parts and runs them until the context ends.
func run(ctx context.Context, f flags) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(log.Handler())) // for client-go
	p := &program{flags: f, log: log, shelf: shelf.NewShelf(), started: time.Now()}
	defer func() {
		for _, c := range p.closers {
			if e := c.Close(); err == nil && e != nil {
				err = fmt.Errorf("stopping: %w", e)
			}
		}
	}()
	construct := p.withoutCluster
	if f.from.cluster() {
		construct = p.inCluster
	}
	if err := construct(ctx); err != nil {
		return err
	}
	if err := p.extras.refresh(); err != nil {
		return err
	}
	p.background(p.extras.run)
	p.background(p.cert.Run)
	server, err := p.server()
	if err != nil {
		return err
	}
	if p.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", f.tls.listen); err != nil {
		return fmt.Errorf("opening --listen %s: %w", f.tls.listen, err)
	}
	if err := p.metrics(); err != nil {
		return errors.Join(err, p.listener.Close())
	}
	log.Info("listening", "address", p.listener.Addr().String(), "version", version)
	if f.access.open {
		log.Warn("--open: whoever reaches this port gets the configs")
		if f.extra.server != "" {
			log.Warn("--open and --join-server: whoever reaches this port can join the cluster as any node, and read what nodes may, secrets of configs among it")
		}
	}
	if f.access.secrets == secretsAll {
		log.Warn("--secrets=all: configs are served with their secrets to tokens of a pool, too")
	}
	return p.serve(ctx, server)
}

// server is the HTTPS server with its bounds.
func (p *program) server() (mcshttp.Server, error) {
	networks, err := mcshttp.ParseAllowFrom(p.access.from)
	if err != nil {
		return mcshttp.Server{}, fmt.Errorf("reading --allow-from: %w", err)
	}
	o := mcshttp.Options{
		Source: p.shelf, Tokens: p.tokens, Joiner: p.joiner, Log: p.log,
		Access: mcshttp.Access{Open: p.access.open, SecretsToAll: p.access.secrets == secretsAll, AllowFrom: networks},
		Limits: p.limits.of(),
	}
	if o.Audit, err = p.audit(); err != nil {
		return mcshttp.Server{}, err
	}
	server := mcshttp.Server{TLS: p.cert.TLS(), Log: p.log, Bounds: mcshttp.DefaultBounds()}
	server.Bounds.Stop = max(p.tls.grace, 1) // 0 would be the default
	server.Bounds.Connections, server.Bounds.PerSource = p.limits.connections, p.limits.perSource
	if p.access.clientCA != "" {
		if server.ClientCAs, err = mcshttp.OpenClientCAs(p.access.clientCA, p.log); err != nil {
			return mcshttp.Server{}, err
		}
		p.background(server.ClientCAs.Run)
	}
	server.Handler, p.counts = mcshttp.Routes(o)
	return server, nil
}

// of are the limits by source that the flags say.
func (f limitFlags) of() mcshttp.Limits {
	limits := mcshttp.DefaultLimits()
	limits.Requests = mcshttp.Rate{PerSecond: f.rate, Burst: f.burst}
	limits.Failures = mcshttp.Rate{PerSecond: f.failureRate, Burst: f.failureBurst}
	return limits
}

// audit opens the audit log; nil is none.
func (p *program) audit() (io.Writer, error) {
	switch p.access.audit {
	case "":
		return nil, nil
	case "-":
		return os.Stdout, nil
	}
	f, err := os.OpenFile(p.access.audit, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening --audit-log: %w", err)
	}
	p.closers = append(p.closers, f)
	return f, nil
}

// metrics are served beside, where that is asked for.
func (p *program) metrics() error {
	if p.tls.metrics == "" {
		return nil
	}
	l, err := openMetrics(p.tls.metrics)
	if err != nil {
		return err
	}
	p.parts = append(p.parts, func(ctx context.Context) error { return serveMetrics(ctx, l, p.counts) })
	return nil
}

// background adds a part that cannot fail.
func (p *program) background(part func(context.Context)) {
	p.parts = append(p.parts, func(ctx context.Context) error { part(ctx); return nil })
}

// serve answers until the context ends or a part fails, and lets answers under way end, before what they need does.
func (p *program) serve(ctx context.Context, server mcshttp.Server) error {
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	behind, stopBehind := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBehind()
	var group errgroup.Group
	group.Go(func() error {
		defer stopBehind()
		defer stopServing()
		return server.Serve(serving, p.listener)
	})
	group.Go(func() error {
		<-serving.Done()
		if ctx.Err() != nil {
			p.log.Info("told to stop: answers under way may take as long as the grace", "grace", p.tls.grace)
		}
		return nil
	})
	for _, part := range p.parts {
		group.Go(func() error {
			defer stopServing()
			return part(behind)
		})
	}
	return group.Wait()
}

// report is what the cluster is told of this server.
func (p *program) report() v1alpha1.ServerReport {
	r := v1alpha1.ServerReport{
		Version: version, Listen: p.listener.Addr().String(), Started: metav1.NewTime(p.started.UTC().Truncate(time.Second)),
		Access: v1alpha1.AccessTokens, SecretsToAll: p.access.secrets == secretsAll,
		Authorities: authorities(p.cert.CA()), Served: p.counts.Served(), Refused: p.counts.Refused(),
	}
	if p.access.open {
		r.Access = v1alpha1.AccessOpen
	}
	if until := p.cert.Until(); !until.IsZero() {
		r.CertificateUntil = new(metav1.NewTime(until))
	}
	return r
}

// authorities are the SHA-256, in hexadecimal, of the certificates of PEM.
func authorities(bundle []byte) (sums []string) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(block.Bytes)))
		}
	}
	return sums
}
