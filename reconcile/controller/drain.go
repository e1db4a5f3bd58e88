package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/pace"
	"github.com/bunsen-os/bunsen/reconcile/drain"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/reconcile/rollout"
)

// Drain empties and frees nodes when their daemons ask for it. Nothing tells it that a pod is gone: it looks again at the
// pace of drain.Every. Other news of the node in between cost no request.
//
// Reads: Node request annotation, Pod, PodDisruptionBudget, DaemonSet, MachineConfigPool, RolloutPolicy, GitSource.status, MachineConfig
// Writes: cordon, evictions, deletions where a RolloutPolicy says so, Node acknowledgement and report
type Drain struct {
	// Client reads nodes, pools and policies from the manager's cache and writes nodes.
	Client client.Client
	// Clients reads pods and evicts them: no controller keeps every pod of a cluster in memory.
	Clients kubernetes.Interface
	// Now is the clock.
	Now func() time.Time
	// Events tells people.
	Events Events
	// Stuck, where set, is told whether a node's drain has been under way for too long.
	Stuck func(node string, on bool)

	seen  revision.Digests
	nodes sync.Map // node name → *drained
	sets  sync.Map // namespace/name → daemonSet
}

// drained is what is remembered of a node's drain. Losing it costs requests and a warning told twice, no clock: those are
// on the Node.
type drained struct {
	// request of the last look at the node's pods, and when the next one is due.
	request drain.Request
	due     time.Time
	// alarm told last.
	alarm drain.Alarm

	mu      sync.Mutex
	answers map[types.UID]drain.Answer
}

// of is what is remembered of a node. A node is never reconciled twice at the same time.
func (r *Drain) of(node string) *drained {
	d, _ := r.nodes.LoadOrStore(node, &drained{answers: map[types.UID]drain.Answer{}})
	return d.(*drained)
}

// forget drops what was remembered of a node.
func (r *Drain) forget(node string) {
	if _, known := r.nodes.LoadAndDelete(node); known && r.Stuck != nil {
		r.Stuck(node, false)
	}
}

// Reconcile serves one node's request.
func (r *Drain) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	n := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, n); err != nil {
		r.forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	node, err := drain.ReadNode(n)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	switch node.Request.Verb {
	case v1alpha1.DrainVerb:
		return r.drain(ctx, n, node)
	case v1alpha1.UncordonVerb:
		return reconcile.Result{}, r.uncordon(ctx, n, node)
	default:
		r.forget(n.Name)
		return reconcile.Result{}, r.write(ctx, n, node.Rest(), func(_ drain.Cordoned, a map[string]string) { wipe(a) })
	}
}

// wipe removes what is written of a drain under way.
func wipe(annotations map[string]string) {
	delete(annotations, v1alpha1.DrainStartedAnnotation)
	delete(annotations, v1alpha1.DrainStatusAnnotation)
	delete(annotations, v1alpha1.DrainReportAnnotation)
}

// uncordon lifts our cordon, and acknowledges in the same write.
func (r *Drain) uncordon(ctx context.Context, n *corev1.Node, node drain.Node) error {
	r.forget(n.Name)
	change := drain.Uncordon(node.Cordoned)
	err := r.write(ctx, n, change, func(to drain.Cordoned, a map[string]string) {
		wipe(a)
		if done, ok := drain.Acknowledge(node.Request, to, true); ok {
			a[v1alpha1.LastAppliedDrainAnnotation] = done
		}
	})
	if err == nil && change.Needed {
		r.Events.Eventf(n, nil, corev1.EventTypeNormal, "Uncordon", "Drain", "uncordoned in %s", node.Request.Config)
	}
	return err
}

// drain cordons, gathers, decides, evicts, and acknowledges in the same write that records the progress.
func (r *Drain) drain(ctx context.Context, n *corev1.Node, node drain.Node) (reconcile.Result, error) {
	now := r.Now()
	change := drain.Cordon(node.Cordoned, node.Request.Config)
	memory := r.of(n.Name)
	pause := memory.due.Sub(now)
	if early := pause > 0 && pause <= drain.LongestPause; early && !change.Needed && !node.Started.IsZero() && memory.request == node.Request {
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	if err := r.begin(ctx, n, node, change, now); err != nil {
		return reconcile.Result{}, err
	}
	if node.Started.IsZero() {
		node.Started = now
	}
	facts, err := r.gather(ctx, n, node)
	if err != nil {
		return r.late(ctx, n, node, err, now)
	}
	progress := drain.Decide(facts, now)
	if r.act(ctx, n, facts, progress.Verdicts, now) {
		memory.answered(facts.Pods)
		progress = drain.Decide(facts, now)
	}
	live := drain.Cordoned{Unschedulable: n.Spec.Unschedulable, For: n.Annotations[v1alpha1.CordonedAnnotation]}
	err = r.write(ctx, n, drain.Change{To: live}, func(to drain.Cordoned, a map[string]string) {
		a[v1alpha1.DrainStatusAnnotation] = progress.Status
		a[v1alpha1.DrainReportAnnotation] = drain.ReportText(progress.Report)
		if done, ok := drain.Acknowledge(node.Request, to, progress.Done); ok {
			wipe(a)
			a[v1alpha1.LastAppliedDrainAnnotation] = done
		}
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if progress.Done { // the cache shows the acknowledgement in a moment; to drain once more until then would be for nothing
		progress.Next = drain.Every(0)
	}
	memory.request, memory.due = node.Request, now.Add(progress.Next)
	r.tell(n, memory, progress)
	return reconcile.Result{RequeueAfter: progress.Next}, nil
}

// begin cordons the node, and starts the clock.
func (r *Drain) begin(ctx context.Context, n *corev1.Node, node drain.Node, change drain.Change, now time.Time) error {
	if !change.Needed && !node.Started.IsZero() {
		return nil
	}
	err := r.write(ctx, n, change, func(_ drain.Cordoned, a map[string]string) {
		if node.Started.IsZero() {
			a[v1alpha1.DrainStartedAnnotation] = now.UTC().Format(time.RFC3339)
		}
	})
	if err == nil && change.Needed {
		r.Events.Eventf(n, nil, corev1.EventTypeNormal, "Cordon", "Drain", "cordoned for %s", node.Request.Config)
	}
	return err
}

// late is a round that could not be held: the node says why, and the next one is at the usual pace.
func (r *Drain) late(ctx context.Context, n *corev1.Node, node drain.Node, trouble error, now time.Time) (reconcile.Result, error) {
	live := drain.Cordoned{Unschedulable: n.Spec.Unschedulable, For: n.Annotations[v1alpha1.CordonedAnnotation]}
	err := r.write(ctx, n, drain.Change{To: live}, func(_ drain.Cordoned, a map[string]string) {
		a[v1alpha1.DrainStatusAnnotation] = clip(trouble.Error())
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("%w, after %w", err, trouble)
	}
	pause := drain.Every(now.Sub(node.Started))
	memory := r.of(n.Name)
	memory.request, memory.due = node.Request, now.Add(pause)
	return reconcile.Result{RequeueAfter: pause}, nil
}

// pace is what the RolloutPolicies of the node's pool say about its drain. Where they cannot be read, or the node is in no
// pool, the drain waits: the rollout says what is wrong with them.
func (r *Drain) pace(ctx context.Context, n *corev1.Node) (pace.Drain, error) {
	var pools mcfgv1.MachineConfigPoolList
	var policies v1alpha1.RolloutPolicyList
	if err := r.Client.List(ctx, &policies); err != nil {
		return pace.Drain{}, fmt.Errorf("listing RolloutPolicies: %w", err)
	}
	if len(policies.Items) == 0 {
		return pace.Drain{}, nil
	}
	if err := r.Client.List(ctx, &pools); err != nil {
		return pace.Drain{}, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	all := make([]*mcfgv1.MachineConfigPool, len(pools.Items))
	for i := range pools.Items {
		all[i] = &pools.Items[i]
	}
	primary, _, err := rollout.NewPools(all).For(rollout.ReadNode(n))
	if err != nil {
		return pace.Drain{}, nil
	}
	at := slices.IndexFunc(all, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == primary })
	if at < 0 {
		return pace.Drain{}, nil
	}
	revisions, err := readRevisions(ctx, r.Client, &r.seen)
	if err != nil {
		return pace.Drain{}, err
	}
	if why, err := revision.Unsettled(all[at], revisions.states); err != nil || why != "" {
		return pace.Drain{}, err // a policy of half a revision ends nobody's patience
	}
	p, _ := pace.For(all[at], policies.Items)
	return p.Drain, nil
}

// tell makes one event when a drain begins to wait for a budget, one when it begins to take too long, and one when it is
// stuck.
func (r *Drain) tell(n *corev1.Node, memory *drained, p drain.Progress) {
	if p.Blocked != "" {
		r.Events.Eventf(n, nil, corev1.EventTypeWarning, "DrainBlocked", "Drain", "%s", clip(p.Blocked))
	}
	if p.Alarm > memory.alarm {
		memory.alarm = p.Alarm
		r.Events.Eventf(n, nil, corev1.EventTypeWarning, p.Alarm.Event(), "Drain", "%s", clip(p.Status))
	}
	if r.Stuck != nil {
		r.Stuck(n.Name, p.Alarm == drain.Stuck)
	}
}

// write patches cordon and annotations together, where anything differs, and only on the node as it was read.
func (r *Drain) write(ctx context.Context, n *corev1.Node, change drain.Change, annotate func(drain.Cordoned, map[string]string)) error {
	before := n.DeepCopy()
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Spec.Unschedulable = change.To.Unschedulable
	if change.To.For == "" {
		delete(n.Annotations, v1alpha1.CordonedAnnotation)
	} else {
		n.Annotations[v1alpha1.CordonedAnnotation] = change.To.For
	}
	if annotate != nil {
		annotate(change.To, n.Annotations)
	}
	if !changed(before, n) {
		return nil
	}
	if err := r.Client.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the cordon of node %q: %w", n.Name, err)
	}
	return nil
}

func changed(a, b *corev1.Node) bool {
	if a.Spec.Unschedulable != b.Spec.Unschedulable || len(a.Annotations) != len(b.Annotations) {
		return true
	}
	for k, v := range b.Annotations {
		if old, ok := a.Annotations[k]; !ok || old != v {
			return true
		}
	}
	return false
}
