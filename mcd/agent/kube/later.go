package kube

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/health"
	"github.com/bunsen-os/bunsen/mcd/plan"
	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// Later is a cluster that is connected to when it is first needed, and again after the credentials were not taken: what an
// earlier boot left is settled without a cluster, and a node whose kubeconfig is not there yet waits for it. It is safe for
// use by several goroutines.
type Later struct {
	node string
	load func() (*rest.Config, error)

	mu   sync.Mutex
	kube *Client
	host string
}

// NewLater connects nobody yet. Load reads the kubeconfig, each time that a connection is made.
func NewLater(node string, load func() (*rest.Config, error)) *Later {
	return &Later{node: node, load: load}
}

// connect returns the connection that is there, or a new one.
func (l *Later) connect() (*Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kube != nil {
		return l.kube, nil
	}
	config, err := l.load()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", protocol.ErrUnreachable, err)
	}
	kube, err := New(config, l.node)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", protocol.ErrUnreachable, err)
	}
	l.kube, l.host = kube, config.Host
	return kube, nil
}

// heard drops a connection whose credentials were not taken.
func (l *Later) heard(err error) error {
	if apierrors.IsUnauthorized(err) || strange(err) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.kube = nil
	}
	return err
}

// via calls with a connection.
func via[T any](l *Later, call func(*Client) (T, error)) (T, error) {
	kube, err := l.connect()
	if err != nil {
		var none T
		return none, err
	}
	result, err := call(kube)
	return result, l.heard(err)
}

// Assignment is for the agent's Cluster.
func (l *Later) Assignment(ctx context.Context) (protocol.Assignment, error) {
	return via(l, func(k *Client) (protocol.Assignment, error) { return k.Assignment(ctx) })
}

// Report is for the agent's Cluster.
func (l *Later) Report(ctx context.Context, annotations map[string]string) error {
	_, err := via(l, func(k *Client) (struct{}, error) { return struct{}{}, k.Report(ctx, annotations) })
	return err
}

// Config is for the agent's Cluster.
func (l *Later) Config(ctx context.Context, name string) (mcfgv1.MachineConfig, error) {
	return via(l, func(k *Client) (mcfgv1.MachineConfig, error) { return k.Config(ctx, name) })
}

// Rules is for the agent's Cluster.
func (l *Later) Rules(ctx context.Context) (plan.Rules, error) {
	return via(l, func(k *Client) (plan.Rules, error) { return k.Rules(ctx) })
}

// DriftRules is for the agent's Cluster.
func (l *Later) DriftRules(ctx context.Context, pool string) (drift.Policy, error) {
	return via(l, func(k *Client) (drift.Policy, error) { return k.DriftRules(ctx, pool) })
}

// Watch is Client's, with a connection that is made anew where it has to be.
func (l *Later) Watch(ctx context.Context, log *slog.Logger) <-chan struct{} {
	return watch(ctx, log, func(ctx context.Context, changed chan<- struct{}) error {
		_, err := via(l, func(k *Client) (struct{}, error) { return struct{}{}, k.watchOnce(ctx, changed) })
		return err
	})
}

// Heard says what an error of asking the API server means for the health gate; for Health.API.
func (l *Later) Heard(err error) health.API {
	l.mu.Lock()
	host := l.host
	l.mu.Unlock()
	return heard(err, func() bool { return here(host) })
}
