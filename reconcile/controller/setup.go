package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/transpile"
)

// Config is what the controllers need besides a manager.
type Config struct {
	// Namespace holds the Secrets of repositories.
	Namespace string
	// Version of Bunsen.
	Version string
	// Open connects to repositories.
	Open Open
	// Defaults of the cluster for what no MachineConfig sets.
	Defaults render.Defaults
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

// CacheOptions keeps out of memory what no controller reads.
func CacheOptions() cache.Options {
	return cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
}

// Register adds the five controllers to mgr, and the making of the pools that every cluster has.
func Register(mgr ctrl.Manager, cfg Config) error {
	clients, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client for evictions: %w", err)
	}
	c, events := mgr.GetClient(), logged{mgr.GetEventRecorder("machine-config-controller"), mgr.GetLogger()}
	src := &Source{Client: c, Secrets: mgr.GetAPIReader(), Open: cfg.Open, Transpiler: &transpile.Transpiler{}, Namespace: cfg.Namespace, Now: cfg.Now, Events: events}
	ren := &Render{Client: c, Renderer: &render.Renderer{}, Defaults: cfg.Defaults, Version: cfg.Version, Now: cfg.Now, Events: events}
	roll := &Rollout{Client: c, Now: cfg.Now, Events: events}
	dr := &Drain{Client: c, Clients: clients, Now: cfg.Now, Events: events}

	every := everyPool(c)
	builders := []error{
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return ensureStandardPools(ctx, c) })),
		ctrl.NewControllerManagedBy(mgr).Named("source").For(&v1alpha1.GitSource{}).
			Watches(&mcfgv1.MachineConfig{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
			Watches(&mcfgv1.MachineConfigPool{}, handler.EnqueueRequestsFromMapFunc(everySource(c))).
			Watches(&operatorv1.MachineConfiguration{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
			Watches(&v1alpha1.DriftPolicy{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
			WithOptions(controller.Options{MaxConcurrentReconciles: 2}).Complete(calm(src)),
		ctrl.NewControllerManagedBy(mgr).Named("render").For(&mcfgv1.MachineConfigPool{}).
			Watches(&mcfgv1.MachineConfig{}, handler.EnqueueRequestsFromMapFunc(every)).
			Watches(&v1alpha1.GitSource{}, handler.EnqueueRequestsFromMapFunc(every)).Complete(calm(ren)),
		ctrl.NewControllerManagedBy(mgr).Named("rollout").For(&mcfgv1.MachineConfigPool{}).
			Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(every)).Complete(calm(roll)),
		ctrl.NewControllerManagedBy(mgr).Named("policy").For(&operatorv1.MachineConfiguration{}).Complete(calm(&Policy{Client: c, Events: events})),
		ctrl.NewControllerManagedBy(mgr).Named("drain").For(&corev1.Node{}).
			WithOptions(controller.Options{MaxConcurrentReconciles: 5}).Complete(calm(dr)),
	}
	for _, err := range builders {
		if err != nil {
			return fmt.Errorf("registering a controller: %w", err)
		}
	}
	return nil
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

// calm looks again soon, without an alarm in the log, where an object moved between the reading and the writing: that
// is how controllers that share objects work.
func calm(inner reconcile.Reconciler) reconcile.Func {
	return func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		res, err := inner.Reconcile(ctx, req)
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return reconcile.Result{RequeueAfter: 200 * time.Millisecond}, nil
		}
		return res, err
	}
}

// ownerOf asks for the GitSource that owns an object.
func ownerOf(_ context.Context, o client.Object) []reconcile.Request {
	if name := o.GetLabels()[v1alpha1.SourceLabel]; name != "" {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
	}
	return nil
}

// everySource asks for all GitSources: a pool may be what one of them waits for.
func everySource(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list v1alpha1.GitSourceList
		if c.List(ctx, &list) != nil {
			return nil // the cache answers; where it cannot yet, the first sync asks for every object anyway
		}
		return requests(list.Items, func(s *v1alpha1.GitSource) string { return s.Name })
	}
}

// everyPool asks for all pools; there are few, and a look that finds nothing to do is cheap.
func everyPool(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list mcfgv1.MachineConfigPoolList
		if c.List(ctx, &list) != nil {
			return nil
		}
		return requests(list.Items, func(p *mcfgv1.MachineConfigPool) string { return p.Name })
	}
}

func requests[T any](items []T, name func(*T) string) []reconcile.Request {
	out := make([]reconcile.Request, len(items))
	for i := range items {
		out[i] = reconcile.Request{NamespacedName: client.ObjectKey{Name: name(&items[i])}}
	}
	return out
}
