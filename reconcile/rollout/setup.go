package rollout

import (
	"context"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
)

// feed adds an informer's events to a fleet, and enqueues the affected pools after a short delay.
func feed[T client.Object](put, drop func(T) []string) handler.TypedFuncs[T, reconcile.Request] {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(q queue, pools []string) {
		for _, p := range pools {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Name: p}}, coalesce)
		}
	}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { enqueue(q, put(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) { enqueue(q, put(e.ObjectNew)) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) { enqueue(q, drop(e.Object)) },
	}
}

// SetupWithManager reconciles a pool after each change that its rollout depends on. Events of pools and nodes update
// the fleet. The workers start once the fleet has all pools and nodes.
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
			feed(r.Fleet.PutPool, r.Fleet.DropPool))).
		WatchesRawSource(source.Kind(mgr.GetCache(), &corev1.Node{}, feed(r.Fleet.PutNode, r.Fleet.DropNode))).
		WatchesRawSource(source.Kind(secrets, &corev1.ConfigMap{}, r.Fleet.secrets.Handler(r.Client))).
		WatchesRawSource(source.Kind(mgr.GetCache(), &mcfgv1.MachineConfig{},
			feed(r.Fleet.configs.Put, r.Fleet.configs.Drop))).
		WatchesRawSource(source.TypedChannel(woken, wake)).
		Watches(&v1alpha1.RolloutPolicy{}, every).
		Watches(&v1alpha1.GitSource{}, every).
		Watches(&mcfgv1.PinnedImageSet{}, every).
		Watches(&mcfgv1.MachineConfig{}, targets, builder.WithPredicates(kube.CreatedOrDeleted)).
		Watches(&mcfgv1.MachineConfig{}, every, builder.WithPredicates(kube.OwnedBySource)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).Complete(rollout)
}
