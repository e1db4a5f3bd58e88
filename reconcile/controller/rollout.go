package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

// Rollout tells nodes their config, a few at a time.
//
// Reads: MachineConfigPool, RolloutPolicy, GitSource.status, MachineConfig, Node
// Writes: MachineConfigPool rollout annotation and status, Node desiredConfig, requested-by and postponed annotations, Node UpdateInProgress taint, Node labels of the pool that it booted for
type Rollout struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads past the cache, where the cache has not shown a write of ours for long.
	Live client.Reader
	// Fleet has the pools and nodes; whoever makes a Rollout feeds it.
	Fleet *Fleet
	// Gates ask about health; nil: gates of policies stay shut.
	Gates *Gates
	// Metrics are told of each look; nil: nobody is.
	Metrics *Metrics
	// Now is the clock.
	Now func() time.Time
	// Events tells people.
	Events Events
	// Host is the node that the controller runs on; empty if it is not known.
	Host string
	// Writers is how many nodes are written to at a time; 0 is 1.
	Writers int
	// Wake asks for a look at a pool that there may be room for, though no event says so; nil: nobody listens.
	Wake func(pool string)

	turn sync.Mutex // from a decision to the last of its writes: pools may share a budget
	said said
}

// lag is how long a look waits for the informers to show what was written, where no event wakes it earlier.
const lag = time.Second

// afresh is when a look comes again that saw something old; the informers have the new, or are about to.
const afresh = 10 * time.Millisecond

// Reconcile looks at one pool.
func (r *Rollout) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool := &mcfgv1.MachineConfigPool{}
	if err := r.Client.Get(ctx, req.NamespacedName, pool); err != nil {
		r.forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	q, err := r.gather(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	if q.unsettled != "" && !r.Fleet.revisions.lasts(pool.Name, r.Now()) {
		return reconcile.Result{RequeueAfter: lag}, nil
	}
	d, err := r.act(ctx, pool, q)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case d.moved:
		return reconcile.Result{RequeueAfter: afresh}, nil
	case d.stale: // a decision now could break a budget
		return reconcile.Result{RequeueAfter: lag}, r.doubt(ctx, d.written, r.Now())
	}
	for _, other := range r.Fleet.freed(pool.Name, d.wave.Counts.Places) {
		if r.Wake != nil {
			r.Wake(other)
		}
	}
	if d.unasked && r.Gates != nil && (d.wave.LookAgain == 0 || d.wave.LookAgain > coalesce) {
		return reconcile.Result{RequeueAfter: coalesce}, nil
	}
	again := d.wave.LookAgain
	if d.heard && (again == 0 || again > daemonsReadEvery) { // no event tells that a heartbeat is missing
		again = daemonsReadEvery
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// act decides, and does what was decided. What was gathered may be old by then: gates take their time to answer, and so do
// other pools. A decision is about the pool and the policies as they are now, or there is none.
func (r *Rollout) act(ctx context.Context, pool *mcfgv1.MachineConfigPool, q question) (decision, error) {
	r.turn.Lock()
	defer r.turn.Unlock()
	policies, err := listPolicies(ctx, r.Client)
	if err != nil {
		return decision{}, err
	}
	if !alikePolicies(policies, q.policies) {
		return decision{moved: true}, nil
	}
	now := r.Now()
	d := r.Fleet.decide(q, now)
	if d.stale || d.moved {
		return d, nil
	}
	if err := r.store(ctx, pool, d.wave); err != nil {
		return d, err
	}
	silent, heard := r.Fleet.silentNodes(pool.Name, q.heartbeats, now)
	if d.heard = heard; len(silent) > 0 {
		d.wave.Blocks = append(d.wave.Blocks, rollout.SilentBlock(silent))
	}
	records, unread := attest(ctx, r.Live, d)
	done, failed := r.carryOut(ctx, pool.Name, append(records, orders(d.wave, d.nodes, configRequests(func(config string) v1alpha1.Requester { return requester(ctx, r, pool, config) }))...))
	failed = errors.Join(unread, failed)
	before := pool.DeepCopy()
	pool.Status = status.Pool(before.Status, r.summary(ctx, pool, d), now)
	t := transition{before: before, after: pool, was: d.facts.Care.Record, decision: d, events: r.Events}
	t.target, _ = r.config(ctx, d.facts.Target) // nil where it cannot be read: an event without its commit is better than none
	r.announceDone(ctx, t, done)                // whatever becomes of the status: nothing else remembers it
	if err := r.report(ctx, pool, before); err != nil {
		return d, errors.Join(failed, err)
	}
	r.announce(ctx, t)
	return d, failed
}

// store puts the record on the pool, before any node is told: whoever comes after a crash decides the same. How the rollout
// before it ended goes into the pool's history in the same write, so that a crash neither loses nor repeats it.
func (r *Rollout) store(ctx context.Context, pool *mcfgv1.MachineConfigPool, wave rollout.Wave) error {
	text := wave.Record.String()
	if text == pool.Annotations[v1alpha1.RolloutAnnotation] {
		return nil
	}
	before := pool.DeepCopy()
	metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1alpha1.RolloutAnnotation, text)
	if text == "" {
		delete(pool.Annotations, v1alpha1.RolloutAnnotation)
	}
	if wave.Past != nil {
		history := v1alpha1.AddRolloutOutcome(pool.Annotations[v1alpha1.RolloutHistoryAnnotation], *wave.Past)
		metav1.SetMetaDataAnnotation(&pool.ObjectMeta, v1alpha1.RolloutHistoryAnnotation, history)
	}
	err := r.Client.Patch(ctx, pool, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	r.Fleet.wrote(poolKey(pool.Name), outcome(pool.Name, before.ResourceVersion, pool.ResourceVersion, err, r.Now()))
	if err != nil {
		return fmt.Errorf("recording the rollout of pool %q: %w", pool.Name, err)
	}
	return nil
}

// report writes the status.
func (r *Rollout) report(ctx context.Context, pool, before *mcfgv1.MachineConfigPool) error {
	err := writeStatus(ctx, r.Client, pool, before)
	r.Fleet.wrote(poolKey(pool.Name), outcome(pool.Name, before.ResourceVersion, pool.ResourceVersion, err, r.Now()))
	if err != nil {
		return fmt.Errorf("writing the status of pool %q: %w", pool.Name, err)
	}
	return nil
}

// doubt asks the API server about writes that no informer has shown for long: one whose answer was lost may never have
// been done, and an object may be gone. Where the server has what we wrote, the cache is late, and waiting is right.
func (r *Rollout) doubt(ctx context.Context, keys []objectKey, now time.Time) error {
	for _, key := range keys {
		var o client.Object = &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		if key.pool {
			o = &mcfgv1.MachineConfigPool{}
		}
		err := r.Live.Get(ctx, client.ObjectKey{Name: key.name}, o)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("asking whether %q was written: %w", key.name, err)
		}
		r.Fleet.asked(key, o.GetResourceVersion(), now)
	}
	return nil
}

// forget drops what is remembered of a pool that is gone.
func (r *Rollout) forget(pool string) {
	r.said.troubles.Delete(pool)
	r.said.waiting.Delete(pool)
	r.Fleet.revisions.since.Delete(pool)
	r.Metrics.Forget(pool)
}

// gather reads what the fleet does not have: policies, whether the target is there, and the answers of health gates.
func (r *Rollout) gather(ctx context.Context, pool *mcfgv1.MachineConfigPool) (question, error) {
	q := question{pool: pool, host: r.Host, missing: map[string]bool{}, heartbeats: r.Fleet.daemons.read(ctx, r.Live, r.Now())}
	policies, err := listPolicies(ctx, r.Client)
	if err != nil {
		return q, err
	}
	q.policies = policies
	if q.unsettled, err = r.Fleet.revisions.waitsFor(ctx, r.Client, pool); err != nil || q.unsettled != "" {
		return q, err
	}
	facts := rollout.ReadFacts(pool, q.policies, 0)
	for _, name := range []string{facts.Target, facts.Care.Healthy, facts.Care.Record.Back} {
		if there, err := r.config(ctx, name); err != nil {
			return q, err
		} else if name != "" && there == nil {
			q.missing[name] = true
		}
	}
	if r.Gates == nil || len(facts.Care.Pace.Gates) == 0 {
		return q, nil
	}
	if ask := r.Fleet.unasked(q, r.Now()); len(ask.nodes) > 0 {
		r.Fleet.answered(ask, r.Gates.Nodes(ctx, ask.nodes, facts.Care.Pace))
	}
	first := r.Fleet.decide(q, r.Now())
	q.early = first.stale
	if first.stale || first.moved || first.facts.Paused || first.wave.Counts.Converged() {
		return q, nil
	}
	record := first.wave.Record
	q.gates, err = r.Gates.Pool(ctx, GateQuestion{
		Pool: pool.Name, Config: record.Config, Began: record.Began.Time, Step: first.wave.Stage.Step,
		Due:     first.wave.Stage.Due && record.Began.Equal(&first.facts.Care.Record.Began), // a record that is not stored may come to nothing
		RetryAt: first.facts.Care.RetryAt, Pace: first.facts.Care.Pace, Now: r.Now(),
	})
	return q, err
}

// listPolicies has all that there are, from the cache, and shared with it.
func listPolicies(ctx context.Context, c client.Reader) ([]v1alpha1.RolloutPolicy, error) {
	var list v1alpha1.RolloutPolicyList
	if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing RolloutPolicies: %w", err)
	}
	return list.Items, nil
}

// alikePolicies tells that two lists, each in any order, have the same policies in the same versions.
func alikePolicies(a, b []v1alpha1.RolloutPolicy) bool {
	versions := func(list []v1alpha1.RolloutPolicy) map[string]string {
		out := make(map[string]string, len(list))
		for i := range list {
			out[list[i].Name] = string(list[i].UID) + " " + list[i].ResourceVersion
		}
		return out
	}
	return maps.Equal(versions(a), versions(b))
}

// config reads a rendered config without copying it; nil where it is not there, or has no name.
func (r *Rollout) config(ctx context.Context, name string) (*mcfgv1.MachineConfig, error) {
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

// summary is what the pool's status follows from.
func (r *Rollout) summary(ctx context.Context, pool *mcfgv1.MachineConfigPool, d decision) status.PoolFacts {
	f := status.PoolFacts{
		Generation: pool.Generation, Configuration: pool.Spec.Configuration,
		Rollout: d.facts, Wave: d.wave, Degraded: d.degraded, Commits: map[string]string{},
	}
	for i := range d.degraded {
		name := d.degraded[i].Config.Desired
		if _, known := f.Commits[name]; !known && d.degraded[i].Failing() {
			f.Commits[name] = r.commit(ctx, pool, name)
		}
	}
	return f
}
