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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
)

// Until a retry for a rendered config that could not be read.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// pools updates the config that each MachineConfigPool serves. A cluster has hundreds of rendered configs of a megabyte
// each, so it reads only those that a pool serves, and each once, because the name identifies the content. Only secret
// paths come later, with the pool.
type pools struct {
	served       *mcs.Pools
	serveDefault string
	cache        *Cache
	client       rest.Interface
	informer     cache.SharedIndexInformer
	queue        workqueue.TypedRateLimitingInterface[string]
	log          *slog.Logger

	mu     sync.Mutex
	states map[string]poolState
}

// poolState is the config of a pool, or why it has none.
type poolState struct {
	config string
	// secretPaths are those of the pool, which may be newer than those of the config.
	secretPaths string
	// why the pool has no config, or beside one, which part of the pool could not be read
	why    string
	cached bool
}

// watch calls changed with the name of every object that changes, and logs when the informer cannot read.
func watch(informer cache.SharedIndexInformer, kind string, log *slog.Logger, changed func(string)) error {
	notify := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			changed(key)
		}
	}
	err := informer.SetTransform(dropManagedFields)
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    notify,
			UpdateFunc: func(_, object any) { notify(object) },
			DeleteFunc: notify,
		})
	}
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			log.Warn("reading "+kind+" failed, will retry; the last known "+kind+" stay in use", "error", err)
		})
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	return nil
}

// dropManagedFields drops what the server never reads.
func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// run marks the pools as synced after all are reconciled once.
func (p *pools) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, p.queue.ShutDown)
	defer stop()
	for _, pool := range p.informer.GetStore().ListKeys() {
		p.reconcile(ctx, pool)
	}
	for _, key := range p.cache.Keys() { // The cache may have pools that were deleted while this server did not run.
		if pool, ok := strings.CutPrefix(key, poolPrefix); ok {
			p.reconcile(ctx, pool)
		}
	}
	if ctx.Err() != nil {
		return
	}
	p.served.SetSynced()
	p.log.Info("ready: all pools are known")
	for {
		pool, stopped := p.queue.Get()
		if stopped {
			return
		}
		p.reconcile(ctx, pool)
		p.queue.Done(pool)
	}
}

func (p *pools) reconcile(ctx context.Context, pool string) {
	if err := p.update(ctx, pool); err != nil && ctx.Err() == nil {
		p.log.Warn("updating what the pool serves failed, will retry; it keeps its config", "pool", pool, "error", err)
		p.queue.AddRateLimited(pool)
		return
	}
	p.queue.Forget(pool)
}

// update keeps the present config after an error.
func (p *pools) update(ctx context.Context, name string) (err error) {
	defer fault.Recover(&err)
	object, exists, err := p.informer.GetStore().GetByKey(name)
	if err != nil {
		return fmt.Errorf("reading pool %s: %w", name, err)
	}
	pool, ok := object.(*mcfgv1.MachineConfigPool)
	if !exists || !ok {
		p.served.Remove(name)
		p.forget(name)
		return nil
	}
	wanted, why := mcs.ConfigToServe(*pool, p.serveDefault)
	last := p.state(name)
	now := poolState{config: wanted, secretPaths: pool.Annotations[v1alpha1.PoolSecretPathsAnnotation]}
	if why != nil {
		now.why = why.Error()
	}
	if last.config == now.config && last.secretPaths == now.secretPaths && last.why == now.why && last.cached {
		return nil
	}
	if why != nil && last.why != now.why {
		p.log.Warn("choosing the config to serve", "pool", name, "config", wanted, "why", why)
	}
	if wanted == "" {
		p.served.SetUnavailable(name, now.why)
		p.forget(name)
		now.cached = true
		p.setState(name, now)
		return nil
	}
	if last.config == "" && p.queue.NumRequeues(name) == 0 {
		if _, err := p.served.Config(name); err != nil { // The pool exists, so its machines must retry and not give up.
			p.served.SetUnavailable(name, "its config "+wanted+" is being read")
		}
	}
	rendered, err := p.read(ctx, wanted)
	if err != nil {
		p.setUnavailable(name, mcs.FailedRolloutConfig(*pool), configUnavailable(wanted, err))
		return err
	}
	now.cached = p.serve(name, mcs.WithSecretPaths(rendered, now.secretPaths))
	p.setUnavailable(name, mcs.FailedRolloutConfig(*pool), "its config "+wanted+" cannot be served; the server's log "+
		"says why")
	p.setState(name, now)
	return nil
}

// read reads a rendered config. The timeout limits how long other pools wait for this read.
func (p *pools) read(ctx context.Context, name string) (*mcfgv1.MachineConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	rendered := &mcfgv1.MachineConfig{}
	if err := p.client.Get().Resource("machineconfigs").Name(name).Do(ctx).Into(rendered); err != nil {
		return nil, fmt.Errorf("reading config %s: %w", name, err)
	}
	rendered.ManagedFields = nil
	return rendered, nil
}

func configUnavailable(config string, err error) string {
	if apierrors.IsNotFound(err) {
		return "its config " + config + " is not on the cluster"
	}
	return "its config " + config + " cannot be read now"
}

// setUnavailable sets why a pool serves nothing. A config that failed must not boot new machines: if the pool serves
// it, it serves nothing after this call, even if its next config is not available.
func (p *pools) setUnavailable(pool, failed, reason string) {
	config, err := p.served.Config(pool)
	if err == nil && (failed == "" || config.Name() != failed) {
		return
	}
	p.served.SetUnavailable(pool, reason)
	if err == nil {
		p.forget(pool)
		p.log.Warn("the server has no config for new machines of the pool: its rollout was stopped, and the next "+
			"config is not rendered yet", "pool", pool, "config", failed, "why", reason)
	}
}

// serve serves a config and caches it; false if it could not be cached. One that cannot be served is not retried,
// because configs do not change.
func (p *pools) serve(pool string, rendered *mcfgv1.MachineConfig) bool {
	if err := p.served.Set(pool, rendered); err != nil {
		p.log.Warn("the config cannot be served; the pool keeps its previous one", "pool", pool, "config",
			rendered.Name, "error", err)
		return true
	}
	raw, err := json.Marshal(rendered)
	if err == nil {
		err = p.cache.Put(poolPrefix+pool, raw)
	}
	if err != nil {
		p.log.Warn("caching the config of a pool failed", "pool", pool, "config", rendered.Name, "error", err)
	}
	p.log.Info("serving", "pool", pool, "config", rendered.Name, "commit",
		rendered.Annotations[v1alpha1.RevisionAnnotation])
	return err == nil
}

func (p *pools) setCached(configs map[string]*mcfgv1.MachineConfig) {
	for pool, rendered := range configs {
		if err := p.served.Set(pool, rendered); err != nil {
			p.log.Warn("the cached config cannot be served", "pool", pool, "config", rendered.Name, "error", err)
			continue
		}
		p.log.Info("serving from the cache", "pool", pool, "config", rendered.Name)
	}
}

func (p *pools) forget(pool string) {
	p.mu.Lock()
	delete(p.states, pool)
	p.mu.Unlock()
	if err := p.cache.Remove(poolPrefix + pool); err != nil {
		p.log.Warn("removing the config of a pool from the cache failed", "pool", pool, "error", err)
	}
}

func (p *pools) state(pool string) poolState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.states[pool]
}

func (p *pools) setState(pool string, now poolState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states[pool] = now
}

// status also says which part of a pool could not be read.
func (p *pools) status() map[string]v1alpha1.ServedPool {
	all := p.served.Status()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, status := range all {
		if why := p.states[name].why; status.Problem == "" && why != "" {
			status.Problem = why
			all[name] = status
		}
	}
	return all
}
