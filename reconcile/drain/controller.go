package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	corev1 "k8s.io/api/core/v1"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Controller drains and uncordons nodes at the request of their daemons. It does not watch pods, so it reads those of a
// node again at the interval Every. It watches PodDisruptionBudgets, so that a drain continues as soon as its budget
// allows it. Changes of a node that do not concern its drain cause no request to the API server.
//
// Reads: Node request annotation, Pod, PodDisruptionBudget, DaemonSet, MachineConfigPool, RolloutPolicy,
// GitSource.status, MachineConfig
// Writes: cordon, evictions, deletions if a RolloutPolicy says so, Node acknowledgement and report
type Controller struct {
	// Client reads nodes, pools and policies from the manager's cache and writes nodes.
	Client client.Client
	Live   client.Reader
	// Clients reads pods and evicts them, without storing every pod of the cluster in memory.
	Clients kubernetes.Interface
	Now     func() time.Time
	Events  kube.Events
	// for a node's drain that takes too long; may be nil
	ReportStuck func(node string, on bool)

	seen       revision.Digests
	nodes      sync.Map // node name → *drained
	daemonSets sync.Map // namespace/name → daemonSet
	// the name of the node that isAlone found last
	other atomic.Pointer[string]
}

const maxConcurrentDrains = 20

// SetupWithManager reconciles a node after each of its changes, and after one of a PodDisruptionBudget that its drain
// waits for.
func (r *Controller) SetupWithManager(mgr ctrl.Manager, drain reconcile.Reconciler) error {
	return ctrl.NewControllerManagedBy(mgr).Named("drain").For(&corev1.Node{}).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(r.WaitingFor),
			builder.WithPredicates(mayAllowMore)).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentDrains}).Complete(drain)
}

// nodeMemory is a drain in memory. If it is lost, requests and a warning are repeated. The times of the drain are on
// the Node.
type nodeMemory struct {
	// of the last round, and when the next one is due
	request Request
	nextDue time.Time
	// by an event
	reportedAlarm Alarm

	mu      sync.Mutex
	answers map[types.UID]Answer
	// A budget that refused an eviction changed since the last round.
	loosened bool
}

// memoryOf needs no lock, because reconciliations of one node do not run at the same time.
func (r *Controller) memoryOf(node string) *nodeMemory {
	d, _ := r.nodes.LoadOrStore(node, &nodeMemory{answers: map[types.UID]Answer{}})
	return d.(*nodeMemory)
}

func (r *Controller) forget(node string) {
	if _, known := r.nodes.LoadAndDelete(node); known && r.ReportStuck != nil {
		r.ReportStuck(node, false)
	}
}

// Reconcile handles the drain or uncordon request of one node.
func (r *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	n := &corev1.Node{}
	if err := r.Client.Get(ctx, req.NamespacedName, n); err != nil {
		r.forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	node, err := ReadNode(n)
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
		undone, isUndone := node.Withdraw()
		err := r.write(ctx, n, node.Rest(), func(_ Cordoned, a map[string]string) {
			removeProgress(a)
			if isUndone {
				a[v1alpha1.LastAppliedDrainAnnotation] = undone
			}
		})
		if err == nil && isUndone {
			note := fmt.Sprintf("somebody uncordoned the node after it was drained for %s; it is drained again before "+
				"its next update", node.Drained.Config)
			r.Events.Send(kube.Event{Object: n, Warning: true, Reason: "DrainUndone", Action: "Drain", Note: note})
		}
		return reconcile.Result{}, err
	}
}

func removeProgress(annotations map[string]string) {
	delete(annotations, v1alpha1.DrainStartedAnnotation)
	delete(annotations, v1alpha1.DrainStatusAnnotation)
	delete(annotations, v1alpha1.DrainReportAnnotation)
}

// uncordon removes Bunsen's cordon, and acknowledges the request in the same write.
func (r *Controller) uncordon(ctx context.Context, n *corev1.Node, node Node) error {
	r.forget(n.Name)
	change := Uncordon(node.Cordoned)
	err := r.write(ctx, n, change, func(to Cordoned, a map[string]string) {
		removeProgress(a)
		if done, ok := Acknowledge(node.Request, to, true); ok {
			a[v1alpha1.LastAppliedDrainAnnotation] = done
		}
	})
	if err == nil && change.Needed {
		r.Events.Send(kube.Event{Object: n, Reason: "Uncordon", Action: "Drain", Note: fmt.Sprintf("uncordoned in %s",
			node.Request.Config)})
	}
	return err
}

// drain cordons the node, gathers the facts, decides, and evicts. It acknowledges the request in the write that records
// the progress.
func (r *Controller) drain(ctx context.Context, n *corev1.Node, node Node) (reconcile.Result, error) {
	now := r.Now()
	change := Cordon(node.Cordoned, node.Request.Config)
	memory := r.memoryOf(n.Name)
	if memory.takeLoosened() {
		memory.nextDue = now
	}
	pause := memory.nextDue.Sub(now)
	if early := pause > 0 && pause <= LongestPause; early && !change.Needed && !node.Started.IsZero() &&
		memory.request == node.Request {
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
		return r.postpone(ctx, n, node, err, now)
	}
	progress := Decide(facts, now)
	if r.evict(ctx, n, facts, progress.Verdicts, now) {
		memory.fillAnswers(facts.Pods)
		progress = Decide(facts, now)
	}
	err = r.write(ctx, n, Change{To: CordonOf(n)}, func(to Cordoned, a map[string]string) {
		a[v1alpha1.DrainStatusAnnotation] = progress.Status
		a[v1alpha1.DrainReportAnnotation] = ReportText(progress.Report)
		if done, ok := Acknowledge(node.Request, to, progress.Done); ok {
			removeProgress(a)
			a[v1alpha1.LastAppliedDrainAnnotation] = done
		}
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if progress.Done { // The drain is done: the next round finds the acknowledgement in the cache.
		progress.Next = Every(0)
	}
	memory.request, memory.nextDue = node.Request, now.Add(progress.Next)
	r.reportProgress(n, memory, progress)
	return reconcile.Result{RequeueAfter: progress.Next}, nil
}

// begin records when the drain started.
func (r *Controller) begin(ctx context.Context, n *corev1.Node, node Node, change Change,
	now time.Time,
) error {
	if !change.Needed && !node.Started.IsZero() {
		return nil
	}
	err := r.write(ctx, n, change, func(_ Cordoned, a map[string]string) {
		if node.Started.IsZero() {
			a[v1alpha1.DrainStartedAnnotation] = now.UTC().Format(time.RFC3339)
		}
	})
	if err == nil && change.Needed && change.To.For != "" {
		r.Events.Send(kube.Event{Object: n, Reason: "Cordon", Action: "Drain", Note: fmt.Sprintf("cordoned for %s",
			node.Request.Config)})
	}
	return err
}

// postpone writes the reason of a failed round to the node. The next one follows after the usual interval.
func (r *Controller) postpone(ctx context.Context, n *corev1.Node, node Node, trouble error,
	now time.Time,
) (reconcile.Result, error) {
	err := r.write(ctx, n, Change{To: CordonOf(n)}, func(_ Cordoned, a map[string]string) {
		a[v1alpha1.DrainStatusAnnotation] = kube.Clip(trouble.Error())
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("%w, after %w", err, trouble)
	}
	pause := Every(now.Sub(node.Started))
	memory := r.memoryOf(n.Name)
	memory.request, memory.nextDue = node.Request, now.Add(pause)
	return reconcile.Result{RequeueAfter: pause}, nil
}

// drainPace is the RolloutPolicies' for the drain of a node. If they cannot be read, or the node is in no pool, there
// is nothing special. The rollout controller reports invalid policies.
func (r *Controller) drainPace(ctx context.Context, n *corev1.Node) (schedule.Drain, error) {
	var pools mcfgv1.MachineConfigPoolList
	var policies v1alpha1.RolloutPolicyList
	if err := r.Client.List(ctx, &policies); err != nil {
		return schedule.Drain{}, fmt.Errorf("listing RolloutPolicies: %w", err)
	}
	if len(policies.Items) == 0 {
		return schedule.Drain{}, nil
	}
	if err := r.Client.List(ctx, &pools); err != nil {
		return schedule.Drain{}, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	all := make([]*mcfgv1.MachineConfigPool, len(pools.Items))
	for i := range pools.Items {
		all[i] = &pools.Items[i]
	}
	primary, _, err := membership.New(all).For(n.Name, n.Labels)
	if err != nil {
		return schedule.Drain{}, nil
	}
	at := slices.IndexFunc(all, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == primary })
	if at < 0 {
		return schedule.Drain{}, nil
	}
	if _, why, err := revision.Settled(ctx, r.Client, all[at], &r.seen); err != nil || why != "" {
		// The policies may belong to a partly applied revision, and such a policy must not delete pods.
		return schedule.Drain{}, err
	}
	p, _ := schedule.PaceFor(all[at], policies.Items)
	return p.Drain, nil
}

// reportProgress sends one event when a drain begins to wait for a PodDisruptionBudget, when it leaves pods on the
// node, when it takes too long, and when it is stuck.
func (r *Controller) reportProgress(n *corev1.Node, memory *nodeMemory, p Progress) {
	if text := p.Left.String(); text != "" {
		r.Events.Send(kube.Event{
			Object: n, Warning: len(p.Left.Budgets) > 0, Reason: "PodsNotEvicted", Action: "Drain", Note: text,
		})
	}
	if p.Blocked != "" {
		r.Events.Send(kube.Event{Object: n, Warning: true, Reason: "DrainBlocked", Action: "Drain", Note: p.Blocked})
	}
	if p.Alarm > memory.reportedAlarm {
		memory.reportedAlarm = p.Alarm
		r.Events.Send(kube.Event{Object: n, Warning: true, Reason: p.Alarm.Event(), Action: "Drain", Note: p.Status})
	}
	if r.ReportStuck != nil {
		r.ReportStuck(n.Name, p.Alarm == Stuck)
	}
}

// write patches the cordon and the annotations together, if they change. The API server refuses it if the node has
// changed since it was read.
func (r *Controller) write(ctx context.Context, n *corev1.Node, change Change,
	annotate func(Cordoned, map[string]string),
) error {
	before := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}}
	before.ResourceVersion, before.Annotations = n.ResourceVersion, maps.Clone(n.Annotations)
	change.To.Set(n)
	if annotate != nil {
		annotate(change.To, n.Annotations)
	}
	if !cordonChanged(before, n) {
		return nil
	}
	patch, err := cordonPatch(before, n)
	if err != nil {
		return fmt.Errorf("writing the cordon of node %q: %w", n.Name, err)
	}
	err = r.Client.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(v1alpha1.CordonManager))
	err = kube.AfterWrite(err, func() (bool, error) {
		live := &corev1.Node{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(n), live); err != nil {
			return false, err
		}
		if live.UID != n.UID || cordonChanged(n, live) {
			return false, nil
		}
		live.DeepCopyInto(n) // The next write of this round needs the new version.
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("writing the cordon of node %q: %w", n.Name, err)
	}
	return nil
}

// cordonPatch is a JSON merge patch with what cordonChanged compares, for the version of before. Comparing whole Nodes
// as JSON would cost more than the rest of a drain.
func cordonPatch(before, after *corev1.Node) ([]byte, error) {
	annotations := map[string]*string{}
	for k := range before.Annotations {
		if _, stays := after.Annotations[k]; !stays {
			annotations[k] = nil
		}
	}
	for k, v := range after.Annotations {
		if old, was := before.Annotations[k]; !was || old != v {
			annotations[k] = &v
		}
	}
	metadata := map[string]any{"resourceVersion": before.ResourceVersion}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	patch := map[string]any{"metadata": metadata}
	if is := after.Spec.Unschedulable; is != before.Spec.Unschedulable {
		spec := map[string]any{"unschedulable": nil}
		if is {
			spec["unschedulable"] = true
		}
		patch["spec"] = spec
	}
	return json.Marshal(patch)
}

func cordonChanged(a, b *corev1.Node) bool {
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

// mayAllowMore: then a PodDisruptionBudget may allow an eviction that it refused.
var mayAllowMore = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*policyv1.PodDisruptionBudget), e.ObjectNew.(*policyv1.PodDisruptionBudget)
		return was.Generation != is.Generation ||
			is.Status.DisruptionsAllowed > was.Status.DisruptionsAllowed
	},
}

// WaitingFor returns the nodes whose drains a PodDisruptionBudget delays. Their next round is due at once, and requests
// the refused evictions again.
func (r *Controller) WaitingFor(_ context.Context, budget client.Object) (nodes []reconcile.Request) {
	name := budget.GetNamespace() + "/" + budget.GetName()
	r.nodes.Range(func(node, memory any) bool {
		if memory.(*nodeMemory).loosen(name) {
			nodes = append(nodes, reconcile.Request{NamespacedName: types.NamespacedName{Name: node.(string)}})
		}
		return true
	})
	return nodes
}

// loosen makes the answers that a budget refused old, so that they delay no new request, and reports whether there are
// any.
func (d *nodeMemory) loosen(budget string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := false
	for uid, a := range d.answers {
		if a.Kind == Refused && slices.Contains(a.Budgets, budget) {
			a.At = time.Time{}
			d.answers[uid], found = a, true
		}
	}
	d.loosened = d.loosened || found
	return found
}

// takeLoosened reports whether a budget was loosened since the last call.
func (d *nodeMemory) takeLoosened() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.loosened
	d.loosened = false
	return was
}
