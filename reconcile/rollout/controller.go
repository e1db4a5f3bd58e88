package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/gate"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/reconcile/status"
	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Controller assigns configs to nodes, a few at a time.
//
// Reads: MachineConfigPool, RolloutPolicy, PinnedImageSet, GitSource.status, MachineConfig, Node, ConfigMap with the
// revisions of secrets
// Writes: MachineConfigPool rollout annotation and status, Node desiredConfig, nextConfig, desiredSecrets, requested-by
// and postponed annotations, Node UpdateInProgress taint, Node labels of the pool that it booted for
type Controller struct {
	// Client reads from the manager's cache.
	Client client.Client
	// for writes that the cache has not shown for a long time
	Live client.Reader
	// the pools and nodes; SetupWithManager connects it to the informers
	Fleet *Fleet
	// nil: the gates of policies stay closed
	Gates *gate.Evaluator
	// for each decision; optional
	Metrics *health.Metrics
	Now     func() time.Time
	Events  kube.Events
	// the controller's own node; empty if unknown
	Host string
	// the nodes that are written at a time; 0 means 1
	Writers int
	// for a pool that may continue although no event reports that; optional
	Wake func(pool string)

	// locked from a decision to the last of its writes, because pools may share a budget
	deciding sync.Mutex
	reported reported
}

// retrySoon is for stale objects. By then, the informers usually show the new ones.
const retrySoon = 10 * time.Millisecond

// feed enqueues the affected pools, each after a wait.
func feed[T client.Object](put, drop func(T) []string,
	wait func(pool string) time.Duration,
) handler.TypedFuncs[T, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(q queue, pools []string) {
		for _, p := range pools {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: p}}, wait(p))
		}
	}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { enqueue(q, put(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) { enqueue(q, put(e.ObjectNew)) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { enqueue(q, drop(e.Object)) },
	}
}

// SetupWithManager reconciles a pool after each change that its rollout depends on. Events of pools and nodes update
// the fleet. The workers start once it has all of them.
func (r *Controller) SetupWithManager(mgr ctrl.Manager, rollout reconcile.Reconciler) error {
	secrets, err := NewSecretRevisionsCache(mgr)
	if err != nil {
		return err
	}
	every := kube.EveryPool(r.Client)
	targets := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &mcfgv1.MachineConfigPool{},
		handler.OnlyControllerOwner())
	woken := make(chan event.TypedGenericEvent[string], 64)
	r.Wake = func(pool string) {
		select {
		case woken <- event.TypedGenericEvent[string]{Object: pool}:
		default: // The channel is full, so the pool will be reconciled again without this event.
		}
	}
	wake := handler.TypedFuncs[string, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[string],
			q workqueue.TypedRateLimitingInterface[reconcile.Request],
		) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: e.Object}})
		},
	}
	return ctrl.NewControllerManagedBy(mgr).Named("rollout").
		WatchesRawSource(source.Kind(mgr.GetCache(), &mcfgv1.MachineConfigPool{},
			feed(r.Fleet.PutPool, r.Fleet.DropPool, r.wait))).
		WatchesRawSource(source.Kind(mgr.GetCache(), &corev1.Node{},
			feed(r.Fleet.PutNode, r.Fleet.DropNode, r.wait))).
		WatchesRawSource(source.Kind(secrets, &corev1.ConfigMap{}, r.Fleet.secrets.Handler(r.Client))).
		WatchesRawSource(source.Kind(mgr.GetCache(), &mcfgv1.MachineConfig{},
			feed(r.Fleet.configs.Put, r.Fleet.configs.Drop, r.wait))).
		WatchesRawSource(source.TypedChannel(woken, wake)).
		Watches(&v1alpha1.RolloutPolicy{}, every).
		Watches(&v1alpha1.GitSource{}, every).
		Watches(&mcfgv1.PinnedImageSet{}, every).
		Watches(&mcfgv1.MachineConfig{}, kube.Delayed(targets, r.wait),
			builder.WithPredicates(kube.CreatedOrDeleted)).
		Watches(&mcfgv1.MachineConfig{}, kube.Delayed(every, r.wait), builder.WithPredicates(kube.OwnedBySource)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).Complete(rollout)
}

func (r *Controller) wait(pool string) time.Duration { return r.Fleet.wait(pool, r.Now()) }

// Reconcile makes one decision about one pool, and carries it out.
func (r *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool := &mcfgv1.MachineConfigPool{}
	if err := r.Client.Get(ctx, req.NamespacedName, pool); err != nil {
		r.forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	resumes, err := r.endStops(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	q, err := r.gather(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	if q.unsettled != "" && !r.Fleet.revisions.IsOverdue(pool.Name, q.unsettled, r.Now()) {
		return reconcile.Result{RequeueAfter: kube.CacheLag}, nil
	}
	d, err := r.act(ctx, pool, q)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch d.outcome {
	case poolChanged, gatesUnanswered:
		return reconcile.Result{RequeueAfter: retrySoon}, nil
	case cacheStale:
		return reconcile.Result{RequeueAfter: kube.CacheLag}, r.checkOverdueWrites(ctx, d.overdueWrites, r.Now())
	case decided:
	}
	for _, other := range r.Fleet.freedPools(pool.Name, d.next.Counts.Places) {
		if r.Wake != nil {
			r.Wake(other)
		}
	}
	after := d.requeueAfter(r.Gates != nil)
	if resumes > 0 {
		after = sooner(after, resumes)
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// requeueAfter is for a pool without an event. hasGates: health gates can be evaluated.
func (d decision) requeueAfter(hasGates bool) time.Duration {
	after := d.next.RequeueAfter
	if d.nodeGatesUnasked && hasGates {
		after = sooner(after, coalesce)
	}
	if d.hasHeartbeats { // No event reports that a heartbeat is missing.
		after = sooner(after, health.ReadEvery)
	}
	return after
}

// sooner takes 0 as endless.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// act makes a decision and carries it out, only if pool and policies have not changed since gather: gates take time to
// answer, and other pools may hold the lock.
func (r *Controller) act(ctx context.Context, pool *mcfgv1.MachineConfigPool, q request) (decision, error) {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	policies, err := listPolicies(ctx, r.Client)
	if err != nil {
		return decision{}, err
	}
	if !poolstate.SamePolicies(policies, q.policies) {
		return decision{outcome: poolChanged}, nil
	}
	now := r.Now()
	d := r.Fleet.decide(q, now)
	r.Fleet.setDecided(pool.Name, now, r.Now())
	if d.outcome == gatesUnanswered && r.Gates == nil {
		d.outcome = decided // Without an Evaluator, all gates stay closed.
	}
	if d.outcome != decided {
		return d, nil
	}
	if err := r.store(ctx, pool, d.next); err != nil {
		return d, err
	}
	records, unread := attestedPoolWrites(ctx, r.Live, d)
	done, failed := r.carryOut(ctx, pool.Name,
		append(records, nodeWrites(d.next, d.nodes, r.requestTexts(ctx, pool, d.next))...))
	failed = errors.Join(unread, failed)
	before := pool.DeepCopy()
	pool.Status = status.Pool(before.Status, r.summary(ctx, pool, d), now)
	t := transition{before: before, after: pool, was: d.facts.Care.Record, decision: d, events: r.Events}
	// The target is nil if it cannot be read; events then omit the commit.
	t.target, _ = r.config(ctx, d.facts.Target.Config)
	// Also if the status cannot be written: no object records that they are missing.
	r.reportWrites(ctx, t, done)
	if err := r.report(ctx, pool, before); err != nil {
		return d, errors.Join(failed, err)
	}
	r.reportStatus(ctx, t)
	return d, failed
}

// attestedPoolWrites records the pool for which the server admitted each new node, from the certificate requests of the
// API server. That of a Node always exists first, and Kubernetes deletes it after an hour.
func attestedPoolWrites(ctx context.Context, live client.Reader, d decision) ([]nodeWrite, error) {
	names := unattestedNodes(d.next)
	if len(names) == 0 {
		return nil, nil
	}
	var requests certificatesv1.CertificateSigningRequestList
	if err := live.List(ctx, &requests); err != nil {
		return nil, fmt.Errorf("reading the certificate requests of new nodes: %w", err)
	}
	var tokens v1alpha1.ProvisioningTokenList
	if err := live.List(ctx, &tokens); err != nil {
		return nil, fmt.Errorf("reading the used tokens of new nodes: %w", err)
	}
	var out []nodeWrite
	for _, name := range names {
		n := d.nodes[name]
		pool := poolstate.AttestedPool(n, requests.Items, tokens.Items)
		o := newNodeWrite(n, fmt.Sprintf("recording the pool of node %q", name))
		o.patch.Metadata.Annotations = map[string]*string{v1alpha1.AttestedPoolAnnotation: &pool}
		out = append(out, o)
	}
	return out, nil
}

// store writes the record to the pool before any config is assigned, so that the decision is the same after a crash.
// The same write adds rollouts that end to the pool's history, so that a crash neither loses nor repeats them, and sets
// the closed gates, for programs that show the pool.
func (r *Controller) store(ctx context.Context, pool *mcfgv1.MachineConfigPool, d poolstate.Decision) error {
	text, gates := d.Record.String(), closedGates(d)
	newRecord := text != pool.Annotations[v1alpha1.RolloutAnnotation]
	if !newRecord && gates == pool.Annotations[v1alpha1.ClosedGatesAnnotation] {
		return nil
	}
	before := pool.DeepCopy()
	kube.SetAnnotation(pool, v1alpha1.RolloutAnnotation, text)
	kube.SetAnnotation(pool, v1alpha1.ClosedGatesAnnotation, gates)
	if newRecord && len(d.Ended) > 0 {
		history := v1alpha1.AddRolloutOutcomes(pool.Annotations[v1alpha1.RolloutHistoryAnnotation], d.Ended)
		metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1alpha1.RolloutHistoryAnnotation, history)
	}
	err := r.Client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	r.Fleet.addWrite(pool.Name, poolKey(pool.Name), before.ResourceVersion, pool.ResourceVersion, err, r.Now())
	if err != nil {
		return fmt.Errorf("recording the rollout of pool %q: %w", pool.Name, err)
	}
	return nil
}

func closedGates(d poolstate.Decision) string {
	var gates []v1alpha1.ClosedGate
	for _, b := range d.Blocks {
		for _, g := range b.Closed {
			if !slices.Contains(gates, g) {
				gates = append(gates, g)
			}
		}
	}
	return v1alpha1.FormatClosedGates(gates)
}

func (r *Controller) report(ctx context.Context, pool, before *mcfgv1.MachineConfigPool) error {
	err := kube.WriteStatus(ctx, r.Client, pool, before)
	r.Fleet.addWrite(pool.Name, poolKey(pool.Name), before.ResourceVersion, pool.ResourceVersion, err, r.Now())
	if err != nil {
		return fmt.Errorf("writing the status of pool %q: %w", pool.Name, err)
	}
	return nil
}

// checkOverdueWrites reads objects from the API server whose write no informer has shown for a long time. A write
// without an answer may have failed, and an object may have been deleted. If the server has the write, the cache is
// stale, and the pool continues to wait.
func (r *Controller) checkOverdueWrites(ctx context.Context, keys []objectKey, now time.Time) error {
	for _, key := range keys {
		var o client.Object = &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		if key.pool {
			o = &mcfgv1.MachineConfigPool{}
		}
		err := r.Live.Get(ctx, client.ObjectKey{Name: key.name}, o)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the written object %q: %w", key.name, err)
		}
		r.Fleet.resolveWrite(key, o.GetResourceVersion(), now)
	}
	return nil
}

func (r *Controller) forget(pool string) {
	r.reported.forget(pool)
	r.Fleet.revisions.Forget(pool)
	r.Metrics.Forget(pool)
}

// gather reads what the fleet does not have: policies, whether the target exists, and the answers of health gates.
func (r *Controller) gather(ctx context.Context, pool *mcfgv1.MachineConfigPool) (request, error) {
	q := request{pool: pool, host: r.Host, missing: map[string]bool{}, heartbeats: r.Fleet.daemons.Read(ctx, r.Live,
		r.Now())}
	policies, err := listPolicies(ctx, r.Client)
	if err != nil {
		return q, err
	}
	q.policies = policies
	if q.unsettled, err = r.Fleet.revisions.Blocker(ctx, r.Client, pool); err != nil || q.unsettled != "" {
		return q, err
	}
	target := pool.Spec.Configuration.Name
	if err := r.Fleet.secrets.Examine(target, func() (*mcfgv1.MachineConfig, error) {
		return r.config(ctx, target)
	}); err != nil {
		return q, err
	}
	facts := poolstate.Read(pool, q.policies, r.Fleet.secrets.Published(), 0)
	for _, name := range []string{facts.Target.Config, facts.Care.Healthy.Config, facts.Care.Record.Back} {
		there, err := r.hasConfig(ctx, name)
		if err != nil {
			return q, err
		}
		if !there {
			q.missing[name] = true
		}
	}
	facts.SetNodeConfigs(r.Fleet.configs.Of)
	if r.Gates == nil {
		return q, nil
	}
	r.Fleet.evaluateNodeGates(facts, func(nodes []*corev1.Node) []string {
		return r.Gates.Nodes(ctx, nodes, facts.Care.Pace)
	})
	ask, due := r.Fleet.gateQuestion(facts, r.Now())
	if q.asked = due; due != (gatesDue{}) {
		q.gates = r.Gates.Pool(ctx, ask)
	}
	return q, nil
}

// listPolicies reads the cache: do not change them.
func listPolicies(ctx context.Context, c client.Reader) ([]v1alpha1.RolloutPolicy, error) {
	var list v1alpha1.RolloutPolicyList
	if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing RolloutPolicies: %w", err)
	}
	return list.Items, nil
}

// config reads a rendered config without copying it; nil if it does not exist or has no name.
func (r *Controller) config(ctx context.Context, name string) (*mcfgv1.MachineConfig, error) {
	if name == "" {
		return nil, nil
	}
	mc := &mcfgv1.MachineConfig{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, mc, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading MachineConfig %q: %w", name, err)
	}
	return mc, nil
}

// hasConfig also asks for the configs of single nodes; true for no config.
func (r *Controller) hasConfig(ctx context.Context, name string) (bool, error) {
	mc, err := r.config(ctx, name)
	if err != nil || mc == nil {
		return name == "", err
	}
	r.Fleet.configs.Put(mc)
	r.Fleet.files.Examine(mc)
	return r.Fleet.configs.Complete(mc.Name, func(name string) (bool, error) {
		own, err := r.config(ctx, name)
		if err != nil || own == nil {
			return false, err
		}
		r.Fleet.files.Examine(own)
		return true, nil
	})
}

func (r *Controller) summary(ctx context.Context, pool *mcfgv1.MachineConfigPool, d decision) status.PoolFacts {
	facts := d.facts
	facts.Nodes = nil // The status needs no list of nodes: the decision and the degraded nodes are enough.
	f := status.PoolFacts{
		Generation: pool.Generation, Configuration: pool.Spec.Configuration,
		Rollout: facts, Decision: d.next, Degraded: d.degraded, Commits: map[v1alpha1.ConfigVersion]string{},
		Images: status.NewImageFacts(d.facts.Nodes, r.Fleet.revisions.ImageSets(pool.Name).Missing),
	}
	for i := range d.degraded {
		failed := d.degraded[i].Config.Desired
		if _, known := f.Commits[failed]; !known && d.degraded[i].Failing() {
			f.Commits[failed] = r.commit(ctx, pool, failed.Config)
		}
	}
	return f
}
