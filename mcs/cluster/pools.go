package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/shelf"
)

// How soon a pool is looked at again after its rendered config could not be read.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// pools brings what each pool serves to the shelf. Pools are watched; of the rendered configs, of which a cluster gathers
// hundreds of a megabyte each, only those are read that a pool serves, once each, for their name says their content.
type pools struct {
	shelf    *shelf.Shelf
	choice   string
	keeper   Keeper
	client   rest.Interface
	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[string]
	log      *slog.Logger

	mu  sync.Mutex
	put map[string]placed // what was put on the shelf last
}

// placed is what was put on the shelf for a pool: a config by name, or why there is none.
type placed struct {
	config string
	why    string // beside a config: what of the pool could not be read
	kept   bool   // the keeper has it
}

func newPools(api clients, o Options) (*pools, error) {
	list := cache.NewListWatchFromClient(api.configs, "machineconfigpools", "", fields.Everything())
	patient := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	p := &pools{
		shelf:    o.Shelf,
		choice:   o.Serve,
		keeper:   o.Keeper,
		client:   api.configs,
		informer: cache.NewSharedIndexInformer(list, &mcfgv1.MachineConfigPool{}, 0, nil),
		queue:    workqueue.NewTypedRateLimitingQueue(patient),
		log:      o.Log,
		put:      map[string]placed{},
	}
	return p, follow(p.informer, "pools", o.Log, p.queue.Add)
}

// follow calls changed with the name of every object of an informer that changes, and tells when it cannot be read.
func follow(informer cache.SharedIndexInformer, what string, log *slog.Logger, changed func(string)) error {
	tell := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			changed(key)
		}
	}
	err := informer.SetTransform(lighter)
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    tell,
			UpdateFunc: func(_, object any) { tell(object) },
			DeleteFunc: tell,
		})
	}
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			log.Warn("reading "+what+", will try again; meanwhile the last known are in force", "error", err)
		})
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", what, err)
	}
	return nil
}

// lighter takes off an object what nobody here reads.
func lighter(object any) (any, error) {
	if of, err := meta.Accessor(object); err == nil {
		of.SetManagedFields(nil)
	}
	return object, nil
}

// run looks at every pool, says that the shelf is ready, and follows the pools until the context ends.
func (p *pools) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, p.queue.ShutDown)
	defer stop()
	for _, pool := range p.informer.GetStore().ListKeys() {
		p.look(ctx, pool)
	}
	for _, name := range p.keeper.Names() { // of pools that were removed while nobody looked
		if pool, ok := strings.CutPrefix(name, poolPrefix); ok {
			p.look(ctx, pool)
		}
	}
	if ctx.Err() != nil {
		return
	}
	p.shelf.SetReady()
	p.log.Info("ready: all pools are known")
	for {
		pool, stopped := p.queue.Get()
		if stopped {
			return
		}
		p.look(ctx, pool)
		p.queue.Done(pool)
	}
}

// look brings one pool's offer up to date, and sees to it that a failure is tried again.
func (p *pools) look(ctx context.Context, pool string) {
	if err := p.update(ctx, pool); err != nil && ctx.Err() == nil {
		p.log.Warn("keeping what the pool served, will try again", "pool", pool, "error", err)
		p.queue.AddRateLimited(pool)
		return
	}
	p.queue.Forget(pool)
}

// update puts what a pool serves on the shelf. While there is an error, the shelf keeps what it has.
func (p *pools) update(ctx context.Context, name string) error {
	object, exists, err := p.informer.GetStore().GetByKey(name)
	if err != nil {
		return fmt.Errorf("reading pool %s: %w", name, err)
	}
	pool, ok := object.(*mcfgv1.MachineConfigPool)
	if !exists || !ok {
		p.shelf.Remove(name)
		p.forget(name)
		return nil
	}
	wanted, why := mcs.Serve(*pool, p.choice)
	last := p.last(name)
	now := placed{config: wanted}
	if why != nil {
		now.why = why.Error()
	}
	if last.config == now.config && last.why == now.why && last.kept {
		return nil
	}
	if why != nil && last.why != now.why {
		p.log.Warn("deciding what to serve", "pool", name, "config", wanted, "why", why)
	}
	if wanted == "" {
		p.shelf.Hold(name, now.why)
		p.forget(name)
		now.kept = true
		p.note(name, now)
		return nil
	}
	if last.config == "" && p.queue.NumRequeues(name) == 0 {
		if _, err := p.shelf.Offer(name); err != nil { // the pool exists, so a machine that asks meanwhile has to wait, not to give up
			p.shelf.Hold(name, "its config "+wanted+" is being read")
		}
	}
	rendered, err := p.read(ctx, wanted)
	if err != nil {
		p.withdraw(name, mcs.Refused(*pool), missing(wanted, err))
		return err
	}
	now.kept = p.serve(name, rendered)
	p.withdraw(name, mcs.Refused(*pool), "its config "+wanted+" cannot be served; the server's log says why")
	p.note(name, now)
	return nil
}

// read gets a rendered config. One that hangs keeps no other pool waiting for long.
func (p *pools) read(ctx context.Context, name string) (*mcfgv1.MachineConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rendered := &mcfgv1.MachineConfig{}
	if err := p.client.Get().Resource("machineconfigs").Name(name).Do(ctx).Into(rendered); err != nil {
		return nil, fmt.Errorf("reading config %s: %w", name, err)
	}
	rendered.ManagedFields = nil
	return rendered, nil
}

// missing says to whoever asks for a config why there is none.
func missing(config string, err error) string {
	if apierrors.IsNotFound(err) {
		return "its config " + config + " is not on the cluster"
	}
	return "its config " + config + " cannot be read now"
}

// withdraw says why a pool has nothing to serve, where it has nothing, or only the config that no new machine may boot any
// more: that one goes, though what is to take its place cannot be had.
func (p *pools) withdraw(pool, refused, why string) {
	offer, err := p.shelf.Offer(pool)
	if err == nil && (refused == "" || offer.Config() != refused) {
		return
	}
	p.shelf.Hold(pool, why)
	if err == nil {
		p.forget(pool)
		p.log.Warn("taking off a config that no new machine may boot, before there is another", "pool", pool, "config", refused, "why", why)
	}
}

// serve puts a config on the shelf, and keeps it where it can be served. A config that cannot be is not tried again, for it
// does not change. It is false where the config was to be kept and could not.
func (p *pools) serve(pool string, rendered *mcfgv1.MachineConfig) bool {
	if err := p.shelf.Put(pool, rendered); err != nil {
		p.log.Warn("cannot serve; keeping what the pool served", "pool", pool, "config", rendered.Name, "error", err)
		return true
	}
	raw, err := json.Marshal(rendered)
	if err == nil {
		err = p.keeper.Put(poolPrefix+pool, raw)
	}
	if err != nil {
		p.log.Warn("keeping a config for a start without the API server", "pool", pool, "config", rendered.Name, "error", err)
	}
	p.log.Info("serving", "pool", pool, "config", rendered.Name, "commit", rendered.Annotations[v1alpha1.RevisionAnnotation])
	return err == nil
}

// putKept puts what was kept on the shelf.
func (p *pools) putKept(configs map[string]*mcfgv1.MachineConfig) {
	for pool, rendered := range configs {
		if err := p.shelf.Put(pool, rendered); err != nil {
			p.log.Warn("cannot serve what was kept", "pool", pool, "config", rendered.Name, "error", err)
			continue
		}
		p.log.Info("serving what was kept", "pool", pool, "config", rendered.Name)
	}
}

// forget drops what is known and kept of a pool.
func (p *pools) forget(pool string) {
	p.mu.Lock()
	delete(p.put, pool)
	p.mu.Unlock()
	if err := p.keeper.Remove(poolPrefix + pool); err != nil {
		p.log.Warn("forgetting a config that is served no more", "pool", pool, "error", err)
	}
}

func (p *pools) last(pool string) placed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.put[pool]
}

func (p *pools) note(pool string, now placed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put[pool] = now
}

// serving is what the shelf says of each pool, and what of a pool could not be read.
func (p *pools) serving() map[string]v1alpha1.ServedPool {
	all := p.shelf.Serving()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, served := range all {
		if placed := p.put[name]; served.Problem == "" && placed.why != "" {
			served.Problem = placed.why
			all[name] = served
		}
	}
	return all
}
