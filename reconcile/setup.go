package reconcile

import (
	"context"
	"fmt"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/approve"
	"github.com/bunsen-os/bunsen/reconcile/content"
	"github.com/bunsen-os/bunsen/reconcile/drain"
	"github.com/bunsen-os/bunsen/reconcile/garbage"
	"github.com/bunsen-os/bunsen/reconcile/gate"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/reconcile/health"
	"github.com/bunsen-os/bunsen/reconcile/pools"

	"github.com/bunsen-os/bunsen/reconcile/kube"

	"github.com/bunsen-os/bunsen/reconcile/pinning"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/reconcile/rollout"

	"github.com/bunsen-os/bunsen/transpile"
)

// Config has the settings of the controllers.
type Config struct {
	// of the controller's Leases
	Namespace string
	// of the Secrets that GitSources name
	SecretsNamespace string
	// of Bunsen
	Version string
	// connects to repositories
	Open gitsource.Open
	// for fields that no MachineConfig sets
	Defaults render.Defaults
	// the controllers' own node, which is updated last; empty if unknown
	Node string
	// the address for webhook requests of git hosts; empty or 0: none
	Webhook string
	// for the bytes of large files; nil for objects of the cluster
	ContentRegistry content.Registry
	// for the BunsenStatus and the metrics; nil for none
	Judge health.Judge
	// this process
	Replica health.Replica
	Now     func() time.Time
}

// Scheme returns the Go types of every kind that the controllers use.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, mcfgv1.Install, operatorv1.Install,
		v1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return s, nil
}

// CacheOptions removes fields from cached objects that no controller reads: mainly the images of Nodes, and
// certificates. Of the managed fields, only the owners of a Node's cordon stay.
//
// One function handles all kinds, because a cache with options for single kinds requests these from the API server when
// it is created, which may not answer then.
func CacheOptions() cache.Options {
	strip := cache.TransformStripManagedFields()
	return cache.Options{DefaultTransform: func(o any) (any, error) {
		switch o := o.(type) {
		case *corev1.Node:
			o.Status.Images, o.Status.VolumesInUse, o.Status.VolumesAttached = nil, nil, nil
			o.ManagedFields = v1alpha1.CordonOwners(o.ManagedFields)
			return o, nil
		case *certificatesv1.CertificateSigningRequest:
			approve.StripRequest(o)
		}
		return strip(o)
	}}
}

// Register adds the controllers to mgr, and creates the pools that every cluster has once the manager runs.
func Register(mgr ctrl.Manager, cfg Config) error {
	clients, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("creating a client for evictions: %w", err)
	}
	events, err := kube.NewEvents(mgr)
	if err != nil {
		return err
	}
	c, live := mgr.GetClient(), mgr.GetAPIReader()
	stored := &content.Store{Client: c, Now: cfg.Now, Registry: cfg.ContentRegistry}
	cfg.Defaults.LargeFiles = cfg.ContentRegistry != nil
	firstListing, heartbeats := make(chan struct{}, 1), &health.Heartbeats{}
	src := &gitsource.Controller{
		Client: c, Live: live, Open: cfg.Open, Namespace: cfg.SecretsNamespace,
		Transpiler: &transpile.Transpiler{LargeFiles: cfg.Defaults.LargeFiles},
		Now:        cfg.Now, Events: events,
		Applier: &gitsource.Applier{Client: c, Live: live, Now: cfg.Now, Events: events, Contents: stored},
		Slots:   make(gitsource.Slots, maxConcurrentApplies), FirstListing: firstListing,
	}
	numbers := health.NewMetrics(health.MetricsConfig{
		Reader: c, Elected: mgr.Elected(), Now: cfg.Now, OSImage: cfg.Defaults.OSImageURL, Listings: src.LastListings,
		Live: live, Heartbeats: heartbeats,
	})
	ren := &render.Controller{
		Client: c, Live: live, Contents: stored, Renderer: &render.Renderer{},
		Defaults: cfg.Defaults, Version: cfg.Version, Now: cfg.Now, Events: events, ReportLatency: numbers.Rendered,
	}
	dr := &drain.Controller{
		Client: c, Live: live, Clients: clients, Now: cfg.Now, Events: events,
		ReportStuck: numbers.DrainError,
	}
	gc := &garbage.Controller{
		Client: c, Live: live, Source: src, Render: ren, Contents: stored, Now: cfg.Now,
		Events: events,
	}
	app := &approve.Controller{Client: c, Live: live, Events: events, Metrics: numbers, Now: cfg.Now}
	roll := &rollout.Controller{
		Client: c, Live: live, Fleet: rollout.NewFleet(heartbeats), Gates: &gate.Evaluator{
			Live: live, Client: c,
			Now: cfg.Now, Events: events,
		}, Metrics: numbers,
		Now: cfg.Now, Events: events, Host: cfg.Node, Writers: maxConcurrentNodeWrites,
	}
	beat := &health.Reporter{
		Client: c, Live: live, Namespace: cfg.Namespace, Replica: cfg.Replica, Version: cfg.Version,
		Elected: mgr.Elected(), Listings: src.LastListings, FirstListing: firstListing,
		Synced: mgr.GetCache().WaitForCacheSync, Now: cfg.Now,
	}
	sum := &health.SummaryController{
		Client: c, Live: live, Heartbeats: heartbeats, Namespace: cfg.Namespace,
		Version: cfg.Version, Now: cfg.Now,
		Secrets: roll.Fleet.SecretRevisions, Judge: cfg.Judge, Report: numbers.Verdicts,
	}
	measured := func(name string, r reconcile.Reconciler) reconcile.Reconciler {
		return kube.RequeueConflicts(numbers.Watch(name, r))
	}
	errs := []error{
		numbers.Register(ctrlmetrics.Registry),
		mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return pools.EnsureStandard(ctx, c, live) })),
		src.SetupWithManager(mgr, measured("source", src)),
		ren.SetupWithManager(mgr, measured("render", ren)),
		roll.SetupWithManager(mgr, measured("rollout", roll)),
		pinning.SetupWithManager(mgr, measured("pinned-images", &pinning.Controller{Client: c, Now: cfg.Now})),
		pools.SetupDisruption(mgr, measured("policy", &pools.DisruptionController{Client: c, Events: events})),
		dr.SetupWithManager(mgr, measured("drain", dr)),
		app.SetupWithManager(mgr, measured("approve", app)),
		gc.SetupWithManager(mgr, kube.RequeueConflicts(gc)),
		sum.SetupWithManager(mgr, kube.RequeueConflicts(sum)),
		beat.SetupWithManager(mgr),
		addWebhook(mgr, cfg),
		mgr.Add(operatorWatch{clients}),
	}
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("registering a controller: %w", err)
		}
	}
	return nil
}

// addWebhook does nothing without an address.
func addWebhook(mgr ctrl.Manager, cfg Config) error {
	if cfg.Webhook == "" || cfg.Webhook == "0" {
		return nil
	}
	requests, err := gitsource.NewWebhookRequests(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	return mgr.Add(&gitsource.WebhookReceiver{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: cfg.SecretsNamespace, Address: cfg.Webhook,
		Now: cfg.Now, After: time.After, Requests: requests,
	})
}

const (
	// of GitSources, at a time
	maxConcurrentApplies = 2
	// of nodes at a time: a rollout begins with a taint on each node of a pool, so there are many
	maxConcurrentNodeWrites = 16
)
