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
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/certs"
	"github.com/bunsen-os/bunsen/mcs/files"
	"github.com/bunsen-os/bunsen/mcs/http"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// program is the server during its construction.
type program struct {
	flags
	log       *slog.Logger
	pools     *mcs.Pools
	listener  net.Listener
	additions *files.Additions
	cert      *certs.Certificates
	metrics   *http.Metrics
	started   time.Time
	apis      apis
	daemons   join.Binaries

	// parts are functions that run beside the server, until after its last response.
	parts []func(context.Context) error
	// closers are closed after the parts, in this order.
	closers []io.Closer
}

// apis are the services that handlers use besides pools. A nil service is not available.
type apis struct {
	tokens          http.Tokens
	bootstrapTokens http.BootstrapTokens
	nodes           http.Nodes
	content         http.Content
}

// run constructs the parts and runs them until the context ends.
func run(ctx context.Context, f flags) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(log.Handler())) // client-go reads the logger from the context.
	p := &program{flags: f, log: log, pools: mcs.NewPools(), started: time.Now()}
	defer func() {
		for _, c := range p.closers {
			if e := c.Close(); err == nil && e != nil {
				err = fmt.Errorf("stopping: %w", e)
			}
		}
	}()
	if p.daemons, err = readDaemons(f.extra.daemons); err != nil {
		return err
	}
	construct := p.withoutCluster
	if f.from.cluster() {
		construct = p.inCluster
	}
	if err := construct(ctx); err != nil {
		return err
	}
	if err := p.additions.Refresh(); err != nil {
		return err
	}
	p.background(p.additions.Run)
	p.background(p.cert.Run)
	server, err := p.server()
	if err != nil {
		return err
	}
	if p.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", f.tls.listen); err != nil {
		return fmt.Errorf("opening --listen %s: %w", f.tls.listen, err)
	}
	if err := p.openMetrics(); err != nil {
		return errors.Join(err, p.listener.Close())
	}
	log.Info("listening", "address", p.listener.Addr().String(), "version", version)
	if f.access.open {
		log.Warn("--open: every client that reaches this port can read the configs")
		if f.extra.server != "" {
			log.Warn("--open and --join-server: every client that reaches this port can join the cluster as any " +
				"node, and read what nodes read, including secrets of configs")
		}
	}
	if f.access.secrets == secretsAll {
		log.Warn("--secrets=all: tokens of a pool get configs with their secrets")
	}
	return p.serve(ctx, server)
}

// server constructs the HTTPS server.
func (p *program) server() (http.Server, error) {
	networks, err := http.ParseAllowFrom(p.access.from)
	if err != nil {
		return http.Server{}, fmt.Errorf("reading --allow-from: %w", err)
	}
	o := http.Options{
		Source: p.pools, Tokens: p.apis.tokens, BootstrapTokens: p.apis.bootstrapTokens, Nodes: p.apis.nodes,
		Content: p.apis.content, Daemons: p.daemons, Log: p.log,
		Access: http.Access{Open: p.access.open, SecretsToAll: p.access.secrets == secretsAll, AllowFrom: networks},
		Limits: p.limits.limits(),
	}
	if o.Audit, err = p.audit(); err != nil {
		return http.Server{}, err
	}
	server := http.Server{
		TLS: p.cert.TLS(), AllowFrom: networks, Limits: o.Limits, Log: p.log,
		Bounds: http.DefaultBounds(),
	}
	server.Bounds.Stop = max(p.tls.grace, 1) // The value 0 would mean the default.
	server.Bounds.Connections, server.Bounds.PerSource = p.limits.connections, p.limits.perSource
	if p.access.clientCA != "" {
		if server.ClientCAs, err = http.OpenClientCA(p.access.clientCA, p.log); err != nil {
			return http.Server{}, err
		}
		p.background(server.ClientCAs.Run)
	}
	server.NodeCAs, o.ClientCAs = p.apis.nodes.CAs, server.ClientCAs
	server.Handler, p.metrics = http.Routes(o)
	server.Metrics = p.metrics
	return server, nil
}

// limits returns the limits of each client address.
func (f limitFlags) limits() http.Limits {
	limits := http.DefaultLimits()
	limits.Requests = http.Rate{PerSecond: f.rate, Burst: f.burst}
	limits.Failures = http.Rate{PerSecond: f.failureRate, Burst: f.failureBurst}
	return limits
}

// audit opens the audit log, if the flags name one.
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

// openMetrics listens at the address of --metrics-listen, if the flag is set.
func (p *program) openMetrics() error {
	if p.tls.metrics == "" {
		return nil
	}
	l, err := listenMetrics(p.tls.metrics)
	if err != nil {
		return err
	}
	p.parts = append(p.parts, func(ctx context.Context) error { return serveMetrics(ctx, l, p.metrics) })
	return nil
}

// background adds a part that cannot fail.
func (p *program) background(part func(context.Context)) {
	p.parts = append(p.parts, func(ctx context.Context) error { part(ctx); return nil })
}

// serve serves until the context ends or a part fails. Then it waits for running requests before it stops the parts.
func (p *program) serve(ctx context.Context, server http.Server) error {
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
			p.log.Info("stopping: waiting for running requests, for at most the grace period", "grace", p.tls.grace)
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

// report returns the status of this server, which the server writes to its Lease.
func (p *program) report() v1alpha1.ServerReport {
	r := v1alpha1.ServerReport{
		Version: version, Listen: p.listener.Addr().String(),
		Started: metav1.NewTime(p.started.UTC().Truncate(time.Second)),
		Access:  v1alpha1.AccessTokens, SecretsToAll: p.access.secrets == secretsAll,
		Authorities: fingerprints(p.cert.CA()), Served: p.metrics.Served(), Refused: p.metrics.Refused(),
		Daemons: p.daemons.Archs(),
	}
	if p.access.open {
		r.Access = v1alpha1.AccessOpen
	}
	if until := p.cert.Until(); !until.IsZero() {
		r.CertificateUntil = new(metav1.NewTime(until))
	}
	return r
}

// fingerprints returns the SHA-256, in hexadecimal, of each certificate in PEM.
func fingerprints(bundle []byte) (sums []string) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(block.Bytes)))
		}
	}
	return sums
}

// readDaemons reads the binaries of the daemon. Compressing one binary takes readDaemons a few seconds.
func readDaemons(paths []string) (out join.Binaries, err error) {
	var problems []error
	seen := map[string]string{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("reading --daemon: %w", err))
			continue
		}
		binary, err := join.NewBinary(content)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("reading --daemon %s: %w", path, err))
			continue
		case seen[binary.Arch] != "":
			problems = append(problems, fmt.Errorf("--daemon: %s and %s are both for %s", seen[binary.Arch], path,
				binary.Arch))
			continue
		}
		seen[binary.Arch] = path
		out = append(out, binary)
	}
	return out, errors.Join(problems...)
}
