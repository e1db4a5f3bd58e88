package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/reconcile/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

const (
	// between two summaries without an event: Leases and heartbeats cause none
	every = 30 * time.Second
	// while Bunsen is not available, mostly just after its installation
	untilAvailable = 5 * time.Second
	// between two summaries: during a rollout, the pools change many times a second
	pause = time.Second
	// for the requests of one summary
	answerWithin = 20 * time.Second
	// the pause after a summary is so much longer than it, so that the summaries of a large cluster take at most a
	// twentieth of a processor
	share = 20
)

// Objects are the objects of the cluster on which Judge gives its verdicts.
type Objects struct {
	Pools    []mcfgv1.MachineConfigPool
	Sources  []v1alpha1.GitSource
	Nodes    []corev1.Node
	Policies []v1alpha1.RolloutPolicy
	// without their contents
	Configs []metav1.PartialObjectMetadata
	// of controllers and servers
	Leases []coordinationv1.Lease
	// heartbeats, by node
	Daemons map[string]v1alpha1.DaemonReport
	// the published revisions, by rendered config
	Secrets map[string]v1alpha1.SecretsRevision
}

// Judge returns the verdict on each pool and each GitSource. It is the function behind `bunsen status`, so that the
// BunsenStatus says the same.
type Judge func(o Objects, now time.Time) []v1alpha1.Verdict

// SummaryController writes the BunsenStatus, and its verdict into the conditions of each pool.
//
// Reads: MachineConfigPool, GitSource, Node, RolloutPolicy, MachineConfig (metadata), Lease, MachineConfigNode
// (heartbeats), BunsenStatus
// Writes: BunsenStatus: creates it, and its status; MachineConfigPool: the conditions Reconciling and Stalled
type SummaryController struct {
	// Client reads from the manager's cache, Live what that does not contain.
	Client client.Client
	Live   client.Reader
	// of the daemons
	Heartbeats *Heartbeats
	// Namespace has the Leases of controllers and servers. Version is this controller's.
	Namespace, Version string
	// Secrets returns the published revisions; nil for none.
	Secrets func() map[string]v1alpha1.SecretsRevision
	// Judge is nil for a status without an outcome.
	Judge Judge
	// for the metrics; optional
	Report func([]v1alpha1.Verdict)
	Now    func() time.Time

	// of the next summary, at the earliest
	next time.Time
}

// SetupWithManager lets the controller reconcile after each change of a pool, a GitSource or a node. It does not watch
// BunsenStatuses: it must also run on a cluster that does not have this kind yet.
func (r *SummaryController) SetupWithManager(mgr ctrl.Manager, summary reconcile.Reconciler) error {
	cluster := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: v1alpha1.BunsenStatusName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("summary").
		Watches(&mcfgv1.MachineConfigPool{}, cluster).Watches(&v1alpha1.GitSource{}, cluster).
		Watches(&corev1.Node{}, cluster, builder.WithPredicates(predicate.Funcs{UpdateFunc: nodeChanged})).
		Complete(summary)
}

// nodeChanged reports whether a verdict may depend on an update. Kubelets update their Nodes all the time.
func nodeChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	ready := func(n *corev1.Node) corev1.ConditionStatus {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status
			}
		}
		return ""
	}
	return before.Spec.Unschedulable != after.Spec.Unschedulable || ready(before) != ready(after) ||
		!maps.Equal(before.Annotations, after.Annotations) || !maps.Equal(before.Labels, after.Labels)
}

// Reconcile creates the BunsenStatus if it is missing, and writes its status. If the API server does not answer, the
// metrics have no verdicts, because the last ones may not be true any more.
func (r *SummaryController) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := r.Now()
	if wait := r.next.Sub(now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	var facts status.ClusterFacts
	defer func() {
		r.next = now.Add(min(max(pause, share*r.Now().Sub(now)), every))
		if r.Report != nil {
			r.Report(facts.Verdicts)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	object := &v1alpha1.BunsenStatus{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.BunsenStatusName}, object)
	switch {
	case meta.IsNoMatchError(err):
		log.FromContext(ctx).Info("the cluster does not have the kind BunsenStatus, so there is no summary; apply " +
			"the CRDs of this version")
		return reconcile.Result{RequeueAfter: every}, nil
	case apierrors.IsNotFound(err):
		object.Name = v1alpha1.BunsenStatusName
		if err := r.Client.Create(ctx, object); err != nil {
			return reconcile.Result{}, fmt.Errorf("creating BunsenStatus %q: %w", object.Name, err)
		}
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading BunsenStatus %q: %w", v1alpha1.BunsenStatusName, err)
	}
	if facts, err = r.facts(ctx, now); err != nil {
		return reconcile.Result{}, err
	}
	facts.Generation = object.Generation
	before := object.DeepCopy()
	object.Status = status.Cluster(before.Status, facts, now)
	if err := kube.WriteStatus(ctx, r.Client, object, before); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of BunsenStatus %q: %w", object.Name, err)
	}
	if err := r.tellPools(ctx, facts, now); err != nil {
		return reconcile.Result{}, err
	}
	if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.AvailableCondition) {
		return reconcile.Result{RequeueAfter: untilAvailable}, nil
	}
	return reconcile.Result{RequeueAfter: every}, nil
}

// tellPools writes the verdict on each pool into its conditions. A pool that changed meanwhile gets the next verdict.
func (r *SummaryController) tellPools(ctx context.Context, facts status.ClusterFacts, now time.Time) error {
	var errs []error
	for _, v := range facts.Verdicts {
		at := slices.IndexFunc(facts.Pools, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == v.Name })
		// This controller leads: that its Lease does not say so yet is no verdict on a pool.
		if v.Kind != "MachineConfigPool" || at < 0 || v.Cause == noController {
			continue
		}
		before := facts.Pools[at]
		pool := before.DeepCopy()
		pool.Status = status.Judged(before.Status, v, now)
		if err := kube.WriteStatus(ctx, r.Client, pool, before); client.IgnoreNotFound(err) != nil &&
			!apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("writing the verdict on MachineConfigPool %q: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

// noController is the cause of verdicts without a controller that leads.
const noController = "Controller"

func (r *SummaryController) facts(ctx context.Context, now time.Time) (status.ClusterFacts, error) {
	f := status.ClusterFacts{Version: r.Version}
	o, err := r.objects(ctx)
	if err != nil {
		return status.ClusterFacts{}, err
	}
	for i := range o.Pools {
		f.Pools = append(f.Pools, &o.Pools[i])
	}
	for i := range o.Sources {
		f.Sources = append(f.Sources, &o.Sources[i])
	}
	versions := map[v1alpha1.ComponentVersion]int32{}
	read := make([]poolstate.Node, len(o.Nodes))
	for i := range o.Nodes {
		read[i] = poolstate.ReadNode(&o.Nodes[i])
	}
	f.Nodes = len(read)
	seen := r.Heartbeats.Read(ctx, r.Live, now)
	f.Silent, _ = Silent(read, seen, now)
	running := r.Heartbeats.Versions()
	for i := range read {
		_, silent := f.Silent[read[i].Name]
		if version, reports := running[read[i].Name]; reports && !silent {
			versions[v1alpha1.ComponentVersion{Component: v1alpha1.DaemonComponent, Version: version}]++
		}
	}
	f.ServersGone = countReplicas(o.Leases, versions, now)
	f.Versions = sorted(versions)
	if r.Judge == nil {
		return f, nil
	}
	o.Daemons = make(map[string]v1alpha1.DaemonReport, len(seen))
	for node, at := range seen {
		o.Daemons[node] = v1alpha1.DaemonReport{Seen: metav1.NewTime(at), Version: running[node]}
	}
	f.Verdicts = r.Judge(o, now)
	return f, nil
}

// objects reads the cluster, pools and GitSources by name, mostly from the cache, without copies: none is changed.
func (r *SummaryController) objects(ctx context.Context) (o Objects, err error) {
	var pools mcfgv1.MachineConfigPoolList
	var sources v1alpha1.GitSourceList
	var nodes corev1.NodeList
	var policies v1alpha1.RolloutPolicyList
	var configs mcfgv1.MachineConfigList
	for _, list := range []client.ObjectList{&pools, &sources, &nodes, &policies, &configs} {
		if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return o, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	o.Pools, o.Sources, o.Nodes, o.Policies = pools.Items, sources.Items, nodes.Items, policies.Items
	slices.SortFunc(o.Pools, func(a, b mcfgv1.MachineConfigPool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(o.Sources, func(a, b v1alpha1.GitSource) int { return strings.Compare(a.Name, b.Name) })
	o.Configs = make([]metav1.PartialObjectMetadata, len(configs.Items))
	for i := range configs.Items {
		o.Configs[i].ObjectMeta = configs.Items[i].ObjectMeta
	}
	var leases coordinationv1.LeaseList
	if err := r.Live.List(ctx, &leases, client.InNamespace(r.Namespace), client.HasLabels{v1alpha1.ServerLabel},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
		return o, fmt.Errorf("listing Leases in namespace %q: %w", r.Namespace, err)
	}
	o.Leases = leases.Items
	if r.Secrets != nil {
		o.Secrets = r.Secrets()
	}
	return o, nil
}

// countReplicas counts the controllers and servers that report. It returns true if there are Leases of servers and all
// of them have expired.
func countReplicas(leases []coordinationv1.Lease, versions map[v1alpha1.ComponentVersion]int32,
	now time.Time,
) (serversGone bool) {
	servers, reporting := 0, 0
	for i := range leases {
		component, alive := leases[i].Labels[v1alpha1.ServerLabel], isAlive(&leases[i], now)
		if component == v1alpha1.ServerComponent {
			servers++
		}
		if !alive {
			continue
		}
		versions[v1alpha1.ComponentVersion{Component: component, Version: versionOf(&leases[i])}]++
		if component == v1alpha1.ServerComponent {
			reporting++
		}
	}
	return servers > 0 && reporting == 0
}

// isAlive reports whether the last heartbeat has not expired.
func isAlive(l *coordinationv1.Lease, now time.Time) bool {
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second))
}

func versionOf(l *coordinationv1.Lease) string {
	if component := l.Labels[v1alpha1.ServerLabel]; component == v1alpha1.ControllerComponent ||
		component == v1alpha1.NotifierComponent {
		if report, err := v1alpha1.ParseControllerReport(l.Annotations[v1alpha1.ControllerAnnotation]); err == nil {
			return report.Version
		}
		return "unknown"
	}
	if report, err := v1alpha1.ParseServerReport(l.Annotations[v1alpha1.ServerAnnotation]); err == nil {
		return report.Version
	}
	return "unknown"
}

func sorted(counts map[v1alpha1.ComponentVersion]int32) []v1alpha1.ComponentVersion {
	out := make([]v1alpha1.ComponentVersion, 0, len(counts))
	for v, count := range counts {
		v.Count = count
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b v1alpha1.ComponentVersion) int {
		return strings.Compare(a.Component+" "+a.Version, b.Component+" "+b.Version)
	})
	return out
}
