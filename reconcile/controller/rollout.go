package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

// Rollout tells nodes their config, a few at a time.
//
// Reads: MachineConfigPool, rendered configs, Node
// Writes: Node desiredConfig annotation and UpdateInProgress taint, pool status
type Rollout struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Now is the clock.
	Now func() time.Time
	// Events tells people.
	Events Events

	written  sync.Map // node name → resourceVersion that a write of ours replaced
	troubles sync.Map // pool name → trouble told last
}

// rolloutFacts is one pool, its nodes, and the objects behind both.
type rolloutFacts struct {
	rollout.Facts
	pool  *mcfgv1.MachineConfigPool
	nodes map[string]*corev1.Node
	// commit annotations of the target, for events.
	target *mcfgv1.MachineConfig
	// trouble is a pool that cannot be rolled out as it is written.
	trouble error
	// stale: the cache does not show a write of ours yet, so a decision now could break the budget.
	stale bool
}

// Reconcile looks at one pool.
func (r *Rollout) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool := &mcfgv1.MachineConfigPool{}
	if err := r.Client.Get(ctx, req.NamespacedName, pool); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Now()
	facts, err := r.gather(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	if facts.stale {
		return reconcile.Result{}, nil // the event of that very node comes next
	}
	var wave rollout.Wave
	if pool.DeletionTimestamp.IsZero() && facts.trouble == nil && facts.target != nil {
		wave = rollout.Next(facts.Facts, now)
	}
	r.warn(pool, facts.trouble)
	if err := r.act(ctx, facts, wave); err != nil {
		return reconcile.Result{}, err
	}
	before := pool.DeepCopy()
	pool.Status = status.Pool(before.Status, status.PoolFacts{
		Generation: pool.Generation, Configuration: pool.Spec.Configuration, Rollout: facts.Facts,
	}, now)
	if err := writeStatus(ctx, r.Client, pool, before); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of pool %q: %w", pool.Name, err)
	}
	r.tell(before, pool, facts)
	return reconcile.Result{RequeueAfter: wave.LookAgain}, nil
}

func (r *Rollout) gather(ctx context.Context, pool *mcfgv1.MachineConfigPool) (rolloutFacts, error) {
	f := rolloutFacts{pool: pool, nodes: map[string]*corev1.Node{}}
	f.Pool, f.Target, f.Paused = pool.Name, pool.Spec.Configuration.Name, pool.Spec.Paused
	var pools mcfgv1.MachineConfigPoolList
	if err := r.Client.List(ctx, &pools); err != nil {
		return f, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return f, fmt.Errorf("listing Nodes: %w", err)
	}
	all := make([]*mcfgv1.MachineConfigPool, len(pools.Items))
	for i := range pools.Items {
		all[i] = &pools.Items[i]
	}
	members := rollout.NewPools(all)
	for i := range nodes.Items {
		n := rollout.ReadNode(&nodes.Items[i])
		primary, _, err := members.For(n)
		if err != nil || primary != pool.Name {
			continue // a node in two custom pools is touched by nobody; the render of neither suffers
		}
		if rv, ok := r.written.Load(n.Name); ok && rv == nodes.Items[i].ResourceVersion {
			f.stale = true
		}
		f.Nodes = append(f.Nodes, n)
		f.nodes[n.Name] = &nodes.Items[i]
	}
	f.MaxUnavailable, f.trouble = rollout.MaxUnavailable(pool.Name, pool.Spec.MaxUnavailable, len(f.Nodes))
	if f.Target == "" {
		return f, nil
	}
	target := &mcfgv1.MachineConfig{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: f.Target}, target); {
	case err == nil:
		f.target = target
	case client.IgnoreNotFound(err) != nil:
		return f, fmt.Errorf("reading MachineConfig %q: %w", f.Target, err)
	}
	return f, nil
}

// act writes to nodes in the wave's order: one patch a node.
func (r *Rollout) act(ctx context.Context, f rolloutFacts, w rollout.Wave) error {
	for _, a := range w.Assign {
		err := r.patch(ctx, f.nodes[a.Node], func(n *corev1.Node) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.DesiredConfigAnnotation, a.Config)
			if a.DropImage {
				delete(n.Annotations, v1alpha1.DesiredImageAnnotation)
			}
			if a.Untaint {
				n.Spec.Taints = withoutTaint(n.Spec.Taints)
			}
		})
		if err != nil {
			return fmt.Errorf("telling node %q to take %q: %w", a.Node, a.Config, err)
		}
		r.Events.Eventf(f.pool, f.nodes[a.Node], corev1.EventTypeNormal, "SetDesiredConfig", "Rollout", "node %s takes %s (%s %q)",
			a.Node, a.Config, short(f.target.Annotations[v1alpha1.RevisionAnnotation]), f.target.Annotations[v1alpha1.CommitSubjectAnnotation])
	}
	for _, name := range w.Taint {
		if err := r.patch(ctx, f.nodes[name], func(n *corev1.Node) {
			n.Spec.Taints = append(withoutTaint(n.Spec.Taints), corev1.Taint{Key: v1alpha1.UpdateInProgressTaint, Effect: corev1.TaintEffectPreferNoSchedule})
		}); err != nil {
			return fmt.Errorf("tainting node %q: %w", name, err)
		}
	}
	for _, name := range w.Untaint {
		if err := r.patch(ctx, f.nodes[name], func(n *corev1.Node) { n.Spec.Taints = withoutTaint(n.Spec.Taints) }); err != nil {
			return fmt.Errorf("removing the taint of node %q: %w", name, err)
		}
	}
	return nil
}

// patch changes a node where it is still as it was read: a decision on stale facts could break the budget.
func (r *Rollout) patch(ctx context.Context, n *corev1.Node, change func(*corev1.Node)) error {
	before := n.DeepCopy()
	change(n)
	if err := r.Client.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	if n.ResourceVersion != before.ResourceVersion {
		r.written.Store(n.Name, before.ResourceVersion)
	}
	return nil
}

func withoutTaint(in []corev1.Taint) []corev1.Taint {
	out := make([]corev1.Taint, 0, len(in))
	for _, t := range in {
		if t.Key != v1alpha1.UpdateInProgressTaint {
			out = append(out, t)
		}
	}
	return out
}

// warn makes one event of a pool that cannot be rolled out as it is written, however often it is looked at.
func (r *Rollout) warn(pool *mcfgv1.MachineConfigPool, trouble error) {
	if trouble == nil {
		r.troubles.Delete(pool.Name)
		return
	}
	text := clip(trouble.Error())
	if told, _ := r.troubles.Swap(pool.Name, text); told != text {
		r.Events.Eventf(pool, nil, corev1.EventTypeWarning, "InvalidMaxUnavailable", "Rollout", "%s", text)
	}
}

// tell makes an event of each transition that people wait for, or are afraid of.
func (r *Rollout) tell(before, after *mcfgv1.MachineConfigPool, f rolloutFacts) {
	commit := ""
	if f.target != nil {
		commit = fmt.Sprintf(" (%s %q)", short(f.target.Annotations[v1alpha1.RevisionAnnotation]), f.target.Annotations[v1alpha1.CommitSubjectAnnotation])
	}
	was, is := before.Status.Configuration.Name, after.Status.Configuration.Name
	if is != was && is != "" {
		r.Events.Eventf(after, nil, corev1.EventTypeNormal, "Completed", "Rollout", "pool %s is updated to %s%s", after.Name, is, commit)
	}
	if now := degradedNodes(after); now != "" && now != degradedNodes(before) {
		r.Events.Eventf(after, nil, corev1.EventTypeWarning, "NodeDegraded", "Rollout", "%s%s", clip(now), commit)
	}
	if updating(after) && !updating(before) {
		r.Events.Eventf(after, nil, corev1.EventTypeNormal, "Updating", "Rollout", "pool %s is updating to %s%s", after.Name, f.Target, commit)
	}
}

// degradedNodes is what the nodes of a pool complain of, or empty.
func degradedNodes(p *mcfgv1.MachineConfigPool) string {
	for _, c := range p.Status.Conditions {
		if c.Type == mcfgv1.MachineConfigPoolNodeDegraded && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func updating(p *mcfgv1.MachineConfigPool) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == mcfgv1.MachineConfigPoolUpdating {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
