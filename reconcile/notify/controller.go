package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

const (
	// that get requests at a time; a slow one does not delay others
	maxReceivers = 64
	// for all requests of one attempt
	maxAttempt = 2 * time.Minute
	// between two failed attempts
	firstRetry, lastRetry = 5 * time.Second, 10 * time.Minute
	// between two attempts: during a rollout, the pools change many times a second
	pause = time.Second
	// between two reads of an unusable Secret
	secretRetry = 30 * time.Second
)

// Controller sends the messages and statuses of each Notification.
//
// Reads: Notification, Secret, GitSource, MachineConfigPool, MachineConfigNode
// Writes: Notification.status; requests to the receivers
type Controller struct {
	// Client reads from the manager's cache, Live reads Secrets and MachineConfigNodes.
	Client client.Client
	Live   client.Reader
	// Open returns the client of a git host, which sends all requests with the HTTP client.
	Open func(forge.Target, *http.Client) (Service, error)
	// of the Secrets
	Namespace string
	// between two statuses of one context of a commit
	Pace time.Duration
	Now  func() time.Time

	mu       sync.Mutex
	memories map[string]*memory
}

// memory is one Notification in memory. After a restart, it comes from the Notification's status and from the git host.
type memory struct {
	generation int64
	// the record of sent states, maybe newer than the status in the cache
	sent []v1alpha1.SentState
	// in a row; no attempt begins before notBefore
	failures  int
	notBefore time.Time
	// the begin of the last attempt
	last time.Time
	// the statuses that the git host has, by source and commit
	posted map[string][]Posted
	// of commits, with the last comment of each
	pulls    map[string]pull
	comments map[string]string
	// what the token may not do, by source and commit
	warnings map[string]string
}

// SetupWithManager enqueues all Notifications after each change of a GitSource or a pool.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	every := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var all v1alpha1.NotificationList
		if err := c.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			return nil // The cache has stopped, because the process ends.
		}
		out := make([]reconcile.Request, len(all.Items))
		for i := range all.Items {
			out[i].Name = all.Items[i].Name
		}
		return out
	})
	return ctrl.NewControllerManagedBy(mgr).Named("notification").
		For(&v1alpha1.Notification{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.GitSource{}, every).Watches(&mcfgv1.MachineConfigPool{}, every).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxReceivers}).Complete(c)
}

// Reconcile makes one attempt to send the present state to a receiver.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	n := &v1alpha1.Notification{}
	if err := c.Client.Get(ctx, req.NamespacedName, n); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.forget(req.Name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading Notification %q: %w", req.Name, err)
	}
	n = n.DeepCopy() // The object of the cache is shared, so the controller changes a copy.
	m := c.memoryOf(n)
	if wait := max(m.notBefore.Sub(c.Now()), m.last.Add(pause).Sub(c.Now())); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	m.last = c.Now()
	out := c.attempt(ctx, n, m)
	now := c.Now()
	result := reconcile.Result{}
	if !out.next.IsZero() {
		result.RequeueAfter = max(out.next.Sub(now), time.Second)
	}
	if out.err != nil {
		m.failures++
		m.notBefore = now.Add(backoff(m.failures, out.reason))
		if out.retryAfter.After(m.notBefore) {
			m.notBefore = out.retryAfter
		}
		result.RequeueAfter = m.notBefore.Sub(now)
	} else {
		m.failures, m.notBefore = 0, time.Time{}
	}
	return result, c.writeStatus(ctx, n, m, out)
}

func backoff(failures int, reason string) time.Duration {
	longest := lastRetry
	if reason == v1alpha1.ReasonSecretInvalid {
		longest = secretRetry
	}
	return min(firstRetry<<min(failures-1, 10), longest)
}

// memoryOf is without the failures of an earlier spec.
func (c *Controller) memoryOf(n *v1alpha1.Notification) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memories == nil {
		c.memories = map[string]*memory{}
	}
	m := c.memories[n.Name]
	if m == nil {
		m = &memory{sent: slices.Clone(n.Status.Sent)}
		c.memories[n.Name] = m
	}
	if m.generation != n.Generation {
		m.generation, m.failures, m.notBefore, m.last = n.Generation, 0, time.Time{}, time.Time{}
		m.posted, m.pulls, m.comments, m.warnings = map[string][]Posted{}, map[string]pull{},
			map[string]string{}, map[string]string{}
	}
	return m
}

func (c *Controller) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memories, name)
}

type outcome struct {
	// why the receiver does not have the present state, without secrets, and the reason of the condition
	err    error
	reason string
	// when to decide again without a change, the time that the receiver named, and the end of quiet hours
	next, retryAfter, quiet time.Time
}

func failure(reason string, err error) outcome { return outcome{err: err, reason: reason} }

// attempt sends what the receiver does not have yet.
func (c *Controller) attempt(ctx context.Context, n *v1alpha1.Notification, m *memory) outcome {
	if n.Spec.Suspend {
		return outcome{}
	}
	if err := Check(n.Spec); err != nil {
		return failure(v1alpha1.ReasonInvalidSpec, err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxAttempt)
	defer cancel()
	facts, err := c.facts(ctx, n.Spec.Cluster)
	if err != nil {
		return failure(v1alpha1.ReasonDeliveryFailed, err)
	}
	s, err := c.secretOf(ctx, n)
	if err != nil {
		return failure(v1alpha1.ReasonSecretInvalid, err)
	}
	web, guard := newClient(s, c.Now)
	defer guard.close()
	out := outcome{reason: v1alpha1.ReasonDeliveryFailed}
	if n.Spec.Type.IsGitHost() {
		h := gitHost{controller: c, notification: n, memory: m, secret: s, client: web, facts: facts}
		out.next, out.err = h.report(ctx)
	} else {
		out.next, out.err = c.deliver(ctx, n, m, facts, receiver{kind: n.Spec.Type, secret: s, client: web})
		if quiet, until, err := Quiet(n.Spec.QuietHours, c.Now()); err == nil && quiet {
			out.quiet = until
		}
	}
	if out.err != nil {
		out.err = errors.New(s.mask(out.err.Error()))
	}
	out.retryAfter = guard.retryAfter()
	return out
}

// newClient returns a client for the hosts of a Secret. It follows no redirect, which could carry the token to another
// host.
func newClient(s secret, now func() time.Time) (*http.Client, *guarded) {
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    s.authorities,
		},
		DialContext: (&net.Dialer{Timeout: requestTimeout}).DialContext, TLSHandshakeTimeout: requestTimeout,
		ResponseHeaderTimeout:  requestTimeout,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true, DisableCompression: true,
	}
	g := &guarded{base: base, hosts: s.hosts, now: now}
	return &http.Client{
		Transport: g, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, g
}

func (c *Controller) secretOf(ctx context.Context, n *v1alpha1.Notification) (secret, error) {
	var object corev1.Secret
	key := client.ObjectKey{Namespace: c.Namespace, Name: n.Spec.SecretRef.Name}
	if err := c.Live.Get(ctx, key, &object); err != nil {
		return secret{}, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	s, err := readSecret(n.Spec.Type, object.Data)
	if err != nil {
		return secret{}, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return s, nil
}

func (s secret) mask(text string) string {
	for _, value := range s.hidden {
		if len(value) >= 4 {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	return text
}

func (c *Controller) facts(ctx context.Context, cluster string) (Facts, error) {
	f := Facts{Cluster: cluster}
	var sources v1alpha1.GitSourceList
	var pools mcfgv1.MachineConfigPoolList
	for _, list := range []client.ObjectList{&sources, &pools} {
		if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return f, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	for i := range sources.Items {
		f.Sources = append(f.Sources, &sources.Items[i])
	}
	for i := range pools.Items {
		f.Pools = append(f.Pools, &pools.Items[i])
	}
	slices.SortFunc(f.Sources, func(a, b *v1alpha1.GitSource) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(f.Pools, func(a, b *mcfgv1.MachineConfigPool) int { return strings.Compare(a.Name, b.Name) })
	return f, nil
}

func (c *Controller) writeStatus(ctx context.Context, n *v1alpha1.Notification, m *memory, out outcome) error {
	before := n.DeepCopy()
	f := status.NotificationFacts{Generation: n.Generation, Sent: m.sent, Suspended: n.Spec.Suspend, Until: out.quiet}
	if out.err != nil {
		f.Reason, f.Problem = out.reason, out.err.Error()
	}
	for _, key := range slices.Sorted(maps.Keys(m.warnings)) {
		f.Warning = m.warnings[key]
	}
	n.Status = status.Notification(before.Status, f, c.Now())
	if equality.Semantic.DeepEqual(n.Status, before.Status) {
		return nil
	}
	if err := c.Client.Status().Patch(ctx, n, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Notification %q: %w", n.Name, err)
	}
	return nil
}

// deliver sends the messages that the receiver does not have yet, each recorded before the next, and returns when to
// decide again.
func (c *Controller) deliver(ctx context.Context, n *v1alpha1.Notification, m *memory, facts Facts,
	to receiver,
) (time.Time, error) {
	known := n.DeepCopy()
	known.Status.Sent = m.sent
	d, err := Decide(known, facts, c.Now())
	if err != nil {
		return time.Time{}, err
	}
	m.sent = d.Sent
	for _, e := range d.Send {
		if err := to.send(ctx, e, c.Now()); err != nil {
			return d.Next, err
		}
		m.sent = Recorded(m.sent, Record(e, c.Now()))
		if err := c.writeStatus(ctx, n.DeepCopy(), m, outcome{}); err != nil {
			return d.Next, err
		}
	}
	return d.Next, nil
}

// Scheme returns the Go types of the kinds that the notifier reads.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, mcfgv1.Install,
		v1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return s, nil
}
