package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
)

// Config is what the controllers need besides a manager.
type Config struct {
	// Namespace has the leases of the controller.
	Namespace string
	// SecretsNamespace has the Secrets that GitSources name.
	SecretsNamespace string
	// Version of Bunsen.
	Version string
	// Open connects to repositories.
	Open Open
	// Defaults of the cluster for what no MachineConfig sets.
	Defaults render.Defaults
	// Node that the controllers run on, which is told last; empty if it is not known.
	Node string
	// Replica that this process is.
	Replica Replica
	// Now is the clock.
	Now func() time.Time
}

// Scheme knows every kind that the controllers touch.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, mcfgv1.Install, operatorv1.Install, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return s, nil
}

// CacheOptions keeps out of memory what no controller reads: the images of a Node are most of it. One function for all
// kinds, since a cache that is told of kinds asks the API server about them before it can wait for it.
func CacheOptions() cache.Options {
	strip := cache.TransformStripManagedFields()
	return cache.Options{DefaultTransform: func(o any) (any, error) {
		if n, ok := o.(*corev1.Node); ok {
			n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached = nil, nil, nil
		}
		return strip(o)
	}}
}

// Register adds the controllers to mgr, and the making of the pools that every cluster has.
func Register(mgr ctrl.Manager, cfg Config) error {
	clients, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client for evictions: %w", err)
	}
	c, live, events := mgr.GetClient(), mgr.GetAPIReader(), logged{mgr.GetEventRecorder("machine-config-controller"), mgr.GetLogger()}
	src := &Source{
		Client: c, Live: live, Open: cfg.Open, Transpiler: &transpile.Transpiler{}, Namespace: cfg.SecretsNamespace, Now: cfg.Now, Events: events,
		Applier: &Applier{Client: c, Live: live, Now: cfg.Now, Events: events}, turns: make(turns, 2),
	}
	looks := func() map[string]v1alpha1.SourceLook { return lastLooks(src) }
	numbers := NewMetrics(MetricsConfig{Reader: c, Elected: mgr.Elected(), Now: cfg.Now, OSImage: cfg.Defaults.OSImageURL, Looks: looks, Live: live})
	ren := &Render{Client: c, Live: live, Renderer: &render.Renderer{}, Defaults: cfg.Defaults, Version: cfg.Version, Now: cfg.Now, Events: events, Took: numbers.Rendered}
	dr := &Drain{Client: c, Clients: clients, Now: cfg.Now, Events: events, Stuck: numbers.DrainError}
	garbage := &Garbage{Client: c, Live: live, Source: src, Render: ren, Now: cfg.Now, Events: events}
	fleet := NewFleet()
	fleet.daemons = numbers.daemons
	roll := &Rollout{
		Client: c, Live: live, Fleet: fleet, Gates: &Gates{Live: live, Client: c, Now: cfg.Now, Events: events}, Metrics: numbers,
		Now: cfg.Now, Events: events, Host: cfg.Node, Writers: writers,
	}
	watched := func(name string, r reconcile.Reconciler) reconcile.Func { return calm(numbers.Watch(name, r)) }
	every := handler.EnqueueRequestsFromMapFunc(everyPool(c))
	errs := []error{
		numbers.Register(metrics.Registry),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return ensureStandardPools(ctx, c, live) })),
		// A status that this controller writes wakes nobody: a failure whose text varies would be tried again at once, for ever.
		ctrl.NewControllerManagedBy(mgr).Named("source").For(&v1alpha1.GitSource{}, builder.WithPredicates(specOrRequest)).
			Watches(&mcfgv1.MachineConfig{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
			Watches(&mcfgv1.MachineConfigPool{}, handler.EnqueueRequestsFromMapFunc(everySource(c)), builder.WithPredicates(poolsMoved(rendersAlike))).
			Watches(&operatorv1.MachineConfiguration{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
			Watches(&v1alpha1.DriftPolicy{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
			Watches(&v1alpha1.RolloutPolicy{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
			WithOptions(controller.Options{MaxConcurrentReconciles: mostSources}).Complete(watched("source", src)),
		ctrl.NewControllerManagedBy(mgr).Named("render").For(&mcfgv1.MachineConfigPool{}, builder.WithPredicates(deletions(ren), poolsMoved(nil))).
			Watches(&mcfgv1.MachineConfig{}, every).Watches(&v1alpha1.GitSource{}, every).Complete(watched("render", ren)),
		roll.setup(mgr, every, watched("rollout", roll)),
		ctrl.NewControllerManagedBy(mgr).Named("policy").For(&operatorv1.MachineConfiguration{}).Complete(watched("policy", &Policy{Client: c, Events: events})),
		ctrl.NewControllerManagedBy(mgr).Named("drain").For(&corev1.Node{}).
			WithOptions(controller.Options{MaxConcurrentReconciles: 20}).Complete(watched("drain", dr)),
		garbage.SetupWithManager(mgr),
		cfg.heartbeat(mgr, src).register(mgr),
	}
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("registering a controller: %w", err)
		}
	}
	return nil
}

// mostSources is how many GitSources wait for their remotes at a time: one that hangs holds up no other.
const mostSources = 200

// specOrRequest passes what a person changes of a GitSource: its spec, its annotations, and that it comes or goes.
var specOrRequest = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})

// heartbeat of this process.
func (cfg Config) heartbeat(mgr ctrl.Manager, src *Source) *Heartbeat {
	looks := func() map[string]v1alpha1.SourceLook { return lastLooks(src) }
	src.listings.first = make(chan struct{}, 1)
	return &Heartbeat{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: cfg.Namespace, Replica: cfg.Replica, Version: cfg.Version,
		Elected: mgr.Elected(), Looks: looks, FirstLook: src.listings.first, Synced: mgr.GetCache().WaitForCacheSync, Now: cfg.Now,
	}
}

// setup lets the events of pools and nodes feed the fleet. Its workers start once the fleet has all that there is.
func (r *Rollout) setup(mgr ctrl.Manager, every handler.EventHandler, look reconcile.Reconciler) error {
	targets := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &mcfgv1.MachineConfigPool{}, handler.OnlyControllerOwner())
	woken := make(chan event.TypedGenericEvent[string], 64)
	r.Wake = func(pool string) {
		select {
		case woken <- event.TypedGenericEvent[string]{Object: pool}:
		default: // it looks again by itself
		}
	}
	wake := handler.TypedFuncs[string, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[string], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: e.Object}})
		},
	}
	return ctrl.NewControllerManagedBy(mgr).Named("rollout").
		WatchesRawSource(source.Kind(mgr.GetCache(), &mcfgv1.MachineConfigPool{}, feed(r.Fleet.PutPool, r.Fleet.DropPool))).
		WatchesRawSource(source.Kind(mgr.GetCache(), &corev1.Node{}, feed(r.Fleet.PutNode, r.Fleet.DropNode))).
		WatchesRawSource(source.TypedChannel(woken, wake)).
		Watches(&v1alpha1.RolloutPolicy{}, every).
		Watches(&v1alpha1.GitSource{}, every).
		Watches(&mcfgv1.MachineConfig{}, targets, builder.WithPredicates(comesOrGoes)).
		Watches(&mcfgv1.MachineConfig{}, every, builder.WithPredicates(ofASource)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).Complete(look)
}

// logged writes each event into the log as well: an event is gone after an hour.
type logged struct {
	Events
	log logr.Logger
}

// Eventf tells about regarding, as Events does.
func (l logged) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	name := ""
	if o, ok := regarding.(client.Object); ok {
		name = o.GetName()
	}
	l.log.Info(fmt.Sprintf(note, args...), "event", reason, "type", eventType, "object", name)
	l.Events.Eventf(regarding, related, eventType, reason, action, note, args...)
}
