package summary

import (
	"context"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller/daemons"
	"github.com/bunsen-os/bunsen/reconcile/controller/kube"
	"github.com/bunsen-os/bunsen/reconcile/rollout/nodestate"
	"github.com/bunsen-os/bunsen/reconcile/status"
)

const (
	// every is the interval between two summaries without an event. The interval is necessary because Leases and
	// heartbeats cause no events.
	every = 30 * time.Second
	// untilAvailable is the interval between two summaries while Bunsen is not available, mostly just after its
	// installation.
	untilAvailable = 5 * time.Second
	// pause is the shortest time between two summaries: during a rollout, the pools change many times a second.
	pause = time.Second
)

// Controller writes the BunsenStatus.
//
// Reads: MachineConfigPool, GitSource, Node, Lease, MachineConfigNode (heartbeats), BunsenStatus
// Writes: BunsenStatus: creates it, and its status
type Controller struct {
	// Client reads from the manager's cache and writes. Live reads objects that the cache does not contain from the API
	// server.
	Client client.Client
	Live   client.Reader
	// Heartbeats has the heartbeats of the daemons.
	Heartbeats *daemons.Heartbeats
	// Namespace has the Leases of controllers and servers. Version is the version of this controller.
	Namespace, Version string
	// Now is the clock.
	Now func() time.Time

	last time.Time
}

// SetupWithManager lets the controller reconcile after each change of a pool or a GitSource. SetupWithManager does not
// watch BunsenStatuses: the controller must also run on a cluster that does not have this kind yet.
func (r *Controller) SetupWithManager(mgr ctrl.Manager, summary reconcile.Reconciler) error {
	cluster := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: v1alpha1.BunsenStatusName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("summary").
		Watches(&mcfgv1.MachineConfigPool{}, cluster).Watches(&v1alpha1.GitSource{}, cluster).Complete(summary)
}

// Reconcile creates the BunsenStatus if it is missing, and writes its status.
func (r *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := r.Now()
	if wait := pause - now.Sub(r.last); wait > 0 && !r.last.IsZero() {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	r.last = now
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
	facts, err := r.facts(ctx, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	facts.Generation = object.Generation
	before := object.DeepCopy()
	object.Status = status.Cluster(before.Status, facts, now)
	if err := kube.WriteStatus(ctx, r.Client, object, before); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of BunsenStatus %q: %w", object.Name, err)
	}
	if !meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.AvailableCondition) {
		return reconcile.Result{RequeueAfter: untilAvailable}, nil
	}
	return reconcile.Result{RequeueAfter: every}, nil
}

// facts reads the objects from which the status of the cluster follows.
func (r *Controller) facts(ctx context.Context, now time.Time) (status.ClusterFacts, error) {
	f := status.ClusterFacts{Version: r.Version}
	var pools mcfgv1.MachineConfigPoolList
	var sources v1alpha1.GitSourceList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&pools, &sources, &nodes} {
		if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return f, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	for i := range pools.Items {
		f.Pools = append(f.Pools, &pools.Items[i])
	}
	for i := range sources.Items {
		f.Sources = append(f.Sources, &sources.Items[i])
	}
	slices.SortFunc(f.Pools, func(a, b *mcfgv1.MachineConfigPool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(f.Sources, func(a, b *v1alpha1.GitSource) int { return strings.Compare(a.Name, b.Name) })

	versions := map[v1alpha1.ComponentVersion]int32{}
	read := make([]nodestate.Node, len(nodes.Items))
	for i := range nodes.Items {
		read[i] = nodestate.Read(&nodes.Items[i])
	}
	f.Nodes = len(read)
	seen := r.Heartbeats.Read(ctx, r.Live, now)
	f.Silent, _ = daemons.Silent(read, seen, now)
	running := r.Heartbeats.Versions()
	for i := range read {
		_, silent := f.Silent[read[i].Name]
		if version, reports := running[read[i].Name]; reports && !silent {
			versions[v1alpha1.ComponentVersion{Component: v1alpha1.DaemonComponent, Version: version}]++
		}
	}
	var leases coordinationv1.LeaseList
	if err := r.Live.List(ctx, &leases, client.InNamespace(r.Namespace), client.HasLabels{v1alpha1.ServerLabel},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
		return f, fmt.Errorf("listing Leases in namespace %q: %w", r.Namespace, err)
	}
	f.ServersGone = countReplicas(leases.Items, versions, now)
	f.Versions = sorted(versions)
	return f, nil
}

// countReplicas counts the replicas of controllers and servers that report. The result is true if there are Leases of
// servers and all of them have expired.
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

// isAlive reports whether the last heartbeat of a Lease has not expired.
func isAlive(l *coordinationv1.Lease, now time.Time) bool {
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second))
}

// versionOf returns the version that a controller or a server reports in its Lease.
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

// sorted returns the counts, sorted by component and version.
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
