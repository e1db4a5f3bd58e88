package http

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/bunsen-os/bunsen/mcs"
)

// tellAfter is how long the first list of pools may take before the log says what keeps it.
const tellAfter = 5 * time.Second

// How soon a pool is looked at again after its rendered config could not be read.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Cluster fills a shelf from an API server. Pools are watched; of the rendered configs, of which a cluster gathers
// hundreds of a megabyte each, only those are read that a pool serves, once each, for their name says their content.
//
// Reads: MachineConfigPool (list, watch), MachineConfig (get). Writes: nothing in the cluster.
type Cluster struct {
	shelf  *Shelf
	client rest.Interface
	pools  cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[string]
	log    *slog.Logger
}

// NewCluster prepares to read an API server into a shelf.
func NewCluster(config *rest.Config, shelf *Shelf, log *slog.Logger) (*Cluster, error) {
	scheme := runtime.NewScheme()
	if err := mcfgv1.Install(scheme); err != nil {
		return nil, fmt.Errorf("preparing the API client: %w", err)
	}
	config = rest.CopyConfig(config)
	config.APIPath = "/apis"
	config.GroupVersion = &mcfgv1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the API client: %w", err)
	}
	list := cache.NewListWatchFromClient(client, "machineconfigpools", "", fields.Everything())
	patience := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	c := &Cluster{
		shelf:  shelf,
		client: client,
		pools:  cache.NewSharedIndexInformer(list, &mcfgv1.MachineConfigPool{}, 0, nil),
		queue:  workqueue.NewTypedRateLimitingQueue(patience),
		log:    log,
	}
	return c, c.watch()
}

// watch queues every pool that changes.
func (c *Cluster) watch() error {
	add := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			c.queue.Add(key)
		}
	}
	_, err := c.pools.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) },
		DeleteFunc: add,
	})
	if err == nil {
		err = c.pools.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			c.log.Warn("reading pools, will try again; meanwhile the last known configs are served", "error", err)
		})
	}
	if err != nil {
		return fmt.Errorf("watching pools: %w", err)
	}
	return nil
}

// Run reads until the context ends. The shelf is ready once every pool was looked at. While the API server is away, the
// shelf keeps what it has. The error is nil after a stop that was asked for.
func (c *Cluster) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	go c.pools.RunWithContext(ctx)
	if !c.synced(ctx) {
		return nil // asked to stop before the API server answered
	}
	for _, pool := range c.pools.GetStore().ListKeys() {
		c.look(ctx, pool)
	}
	c.shelf.SetReady()
	c.log.Info("ready: all pools are known")
	for {
		pool, stopped := c.queue.Get()
		if stopped {
			return nil
		}
		c.look(ctx, pool)
		c.queue.Done(pool)
	}
}

// synced waits for the first list of pools, and tells what it waits for; the informer keeps that to itself. It is false
// when the context ends first.
func (c *Cluster) synced(ctx context.Context) bool {
	for {
		soon, cancel := context.WithTimeout(ctx, tellAfter)
		done := cache.WaitForCacheSync(soon.Done(), c.pools.HasSynced)
		cancel()
		if done || ctx.Err() != nil {
			return done
		}
		err := c.client.Get().Resource("machineconfigpools").Param("limit", "1").Do(ctx).Error()
		c.log.Warn("waiting for the API server's pools", "error", err)
	}
}

// look brings one pool's offer up to date, and sees to it that a failure is tried again.
func (c *Cluster) look(ctx context.Context, pool string) {
	if err := c.update(ctx, pool); err != nil && ctx.Err() == nil {
		c.log.Warn("keeping what the pool served, will try again", "pool", pool, "error", err)
		c.queue.AddRateLimited(pool)
		return
	}
	c.queue.Forget(pool)
}

// update makes the offer for a pool and puts it on the shelf once its body is ready. Until then, and while there is an
// error, the shelf keeps the one before.
func (c *Cluster) update(ctx context.Context, name string) error {
	object, exists, err := c.pools.GetStore().GetByKey(name)
	if err != nil {
		return fmt.Errorf("reading pool %s: %w", name, err)
	}
	pool, ok := object.(*mcfgv1.MachineConfigPool)
	if !exists || !ok {
		c.shelf.Remove(name)
		return nil
	}
	wanted, ok := mcs.Serve(*pool)
	if !ok {
		c.shelf.Put(name, nil)
		return nil
	}
	last, err := c.shelf.Offer(name)
	if err == nil && last.Config() == wanted {
		return nil
	}
	if last == nil {
		c.shelf.Put(name, nil) // the pool exists, so a machine that asks meanwhile has to wait, not to give up
	}
	rendered := &mcfgv1.MachineConfig{}
	if err := c.client.Get().Resource("machineconfigs").Name(wanted).Do(ctx).Into(rendered); err != nil {
		return fmt.Errorf("reading config %s: %w", wanted, err)
	}
	next := NewOffer(mcs.Input{Pool: name, Rendered: rendered})
	err = next.Prepare(last)
	if err != nil && last != nil {
		return err
	}
	c.shelf.Put(name, next) // without an earlier one even a bad config is offered: whoever asks is told what is wrong with it
	if err != nil {
		c.log.Warn("cannot serve", "pool", name, "config", wanted, "error", err)
		return nil
	}
	c.log.Info("serving", "pool", name, "config", wanted, "commit", next.Commit())
	return nil
}
