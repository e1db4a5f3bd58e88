package mcs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	lru "github.com/hashicorp/golang-lru/v2"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Pools stores the config that each pool serves, until another one replaces it, also while the API server is
// unreachable. NewPools creates it. All methods may be called concurrently: writers wait for each other, but readers
// never wait for the creation of a body.
type Pools struct {
	writing sync.Mutex     // writing allows one change at a time, including the creation of bodies.
	extra   Extra          // extra is guarded by writing.
	content *ContentAccess // content is nil if the server has no content store. It is guarded by writing.

	own *lru.Cache[string, *ServedConfig] // own are configs of single nodes, by pool and name.

	mu                      sync.RWMutex
	pools                   map[string]pool
	read                    ReadConfig
	partial, synced, cutOff bool
}

type pool struct {
	config  *ServedConfig         // config is the served config; nil: the pool exists and has nothing to serve.
	wanted  *mcfgv1.MachineConfig // wanted is the config that was last set, which may differ from the served config.
	problem string                // problem is why the pool does not serve the wanted config; empty if it does.
}

// unavailableError is why a pool has nothing to serve.
type unavailableError string

// Error returns the reason.
func (e unavailableError) Error() string { return string(e) }

// Is reports whether target is ErrNothingRendered, so that the machine retries.
func (e unavailableError) Is(target error) bool { return target == ErrNothingRendered }

// NewPools returns a Pools without any pool, which is not ready.
func NewPools() *Pools {
	return &Pools{pools: map[string]pool{}, own: newCache[string, *ServedConfig](maxNodeConfigs)}
}

// Set serves a rendered config in its pool as soon as its first bodies are created, and until then the previous one. Do
// not change the config after the call. Nil records that the pool exists and has nothing to serve. After an error,
// which says why the config cannot be served, the pool serves the previous one, or returns the error to each request.
func (p *Pools) Set(name string, rendered *mcfgv1.MachineConfig) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	if rendered == nil {
		p.setPool(name, pool{})
		return nil
	}
	last := p.all()[name]
	if last.config != nil && last.problem == "" && isSame(last.wanted, rendered) {
		return nil
	}
	if last.config == nil {
		p.setPool(name, pool{problem: last.problem}) // The pool exists, so a machine retries instead of giving up.
	}
	next, err := p.replace(name, pool{config: last.config, wanted: rendered})
	p.setPool(name, next)
	return err
}

// replace returns the pool with the wanted config and the current extra, or with its served config and the problem.
func (p *Pools) replace(name string, now pool) (pool, error) {
	next := newConfig(Input{Pool: name, Rendered: now.wanted, Extra: p.extra, Content: p.content})
	err := next.prepare(now.config)
	if err == nil {
		return pool{config: next, wanted: now.wanted}, nil
	}
	now.problem = err.Error()
	if now.config == nil || now.config.Servable() != nil {
		now.config = next // The pool has no earlier config, so each request gets the error of the new config.
	}
	return now, err
}

// withExtra returns a config with the current extra, or unchanged if that cannot be served.
func (p *Pools) withExtra(config *ServedConfig) *ServedConfig {
	in := config.input
	in.Extra = p.extra
	next := newConfig(in)
	if next.name, next.nodes = config.name, config.nodes; next.prepare(config) == nil {
		return next
	}
	return config
}

// isSame reports whether two rendered configs have the same bodies. The names are not enough: one identifies the
// content only if it contains a hash.
func isSame(a, b *mcfgv1.MachineConfig) bool {
	return a.Name == b.Name &&
		a.Annotations[v1alpha1.RevisionAnnotation] == b.Annotations[v1alpha1.RevisionAnnotation] &&
		a.Annotations[v1alpha1.NodeConfigsAnnotation] == b.Annotations[v1alpha1.NodeConfigsAnnotation] &&
		reflect.DeepEqual(a.Spec, b.Spec)
}

// SetUnavailable records that a pool exists and has nothing to serve, with the reason for clients.
func (p *Pools) SetUnavailable(name, reason string) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.setPool(name, pool{problem: reason})
}

// Remove removes a pool.
func (p *Pools) Remove(name string) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pools, name)
}

// SetExtra changes the files that the server adds to each config, and creates all configs again. Do not change extra
// after the call. The errors name the pools that keep their previous config.
func (p *Pools) SetExtra(extra Extra) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.extra = extra
	p.own.Purge()
	var bad []error
	for _, name := range slices.Sorted(maps.Keys(p.all())) {
		now := p.all()[name]
		if now.wanted == nil {
			continue
		}
		next, err := p.replace(name, now)
		if err != nil {
			bad = append(bad, fmt.Errorf("creating the response bodies of pool %s: %w", name, err))
			next.config = p.withExtra(next.config)
		}
		p.setPool(name, next)
	}
	return errors.Join(bad...)
}

// SetSynced records that every pool was set once. After this call, a pool that was not set does not exist.
func (p *Pools) SetSynced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced = true
}

// SetPartial lets the pools set so far be served, although there may be more. A client of a missing pool has to retry.
func (p *Pools) SetPartial() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = true
}

// SetCutOff records whether the API server has not answered for a long time. The server still serves the pools.
func (p *Pools) SetCutOff(cutOff bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutOff = cutOff
}

// Ready reports whether SetSynced or SetPartial was called, unless the server is cut off from the API server.
func (p *Pools) Ready() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return (p.partial || p.synced) && !p.cutOff
}

// Synced reports whether SetSynced was called.
func (p *Pools) Synced() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.synced
}

// Config returns the config that a pool serves. The error is ErrUnknownPool, ErrNotSynced or ErrNothingRendered, the
// last maybe with the reason of SetUnavailable.
func (p *Pools) Config(name string) (*ServedConfig, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	now, known := p.pools[name]
	switch {
	case now.config != nil:
		return now.config, nil
	case now.problem != "":
		return nil, unavailableError(now.problem)
	case !p.synced:
		return nil, ErrNotSynced
	case known:
		return nil, ErrNothingRendered
	}
	return nil, ErrUnknownPool
}

// Status returns the config that each pool serves, by the name of the pool.
func (p *Pools) Status() map[string]v1alpha1.ServedPool {
	all := map[string]v1alpha1.ServedPool{}
	for name, now := range p.all() {
		status := v1alpha1.ServedPool{Problem: now.problem}
		switch {
		case now.config != nil && now.config.Servable() == nil:
			status.Config = now.config.Name()
		case now.problem == "":
			status.Problem = ErrNothingRendered.Error()
		}
		all[name] = status
	}
	return all
}

func (p *Pools) all() map[string]pool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return maps.Clone(p.pools)
}

func (p *Pools) setPool(name string, now pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pools[name] = now
}

// maxNodeConfigs limits configs of single nodes: a machine boots once, so they are only for machines that boot at the
// same time or try again.
const maxNodeConfigs = 128

// ReadConfig reads a rendered config of the pools, as JSON.
type ReadConfig func(name string) ([]byte, error)

// SetReader sets how Pools reads the configs of single nodes. Without a reader, their machines have to retry.
func (p *Pools) SetReader(read ReadConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = read
}

// NodeConfig returns the config for the machine of a node: its own, or without one, or without the name of a node, that
// of the pool. If its own cannot be read, the machine has to retry, because that of the pool is not for its node. The
// errors are those of Config.
func (p *Pools) NodeConfig(pool, node string) (*ServedConfig, error) {
	config, err := p.Config(pool)
	if err != nil || node == "" {
		return config, err
	}
	if _, own := config.nodes.Nodes[node]; !own {
		return config, nil
	}
	name := config.nodes.Of(node)
	if known, ok := p.own.Get(pool + "/" + name); ok {
		return known, nil
	}
	p.mu.RLock()
	read := p.read
	p.mu.RUnlock()
	if read == nil {
		return nil, unavailableError("this server cannot read the config of node " + node + ": a server without a " +
			"cluster needs --from-git for it")
	}
	rendered := &mcfgv1.MachineConfig{}
	raw, err := read(name)
	if err == nil {
		err = json.Unmarshal(raw, rendered)
	}
	if err == nil {
		err = machineconfig.CheckName(pool, rendered, rendered.Spec)
	}
	if err == nil && rendered.Name != name {
		err = fmt.Errorf("it is the config %s", rendered.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: reading the config of node %s: %w", ErrNothingRendered, node, err)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	own := newConfig(Input{Pool: pool, Rendered: rendered, Extra: p.extra, Content: p.content})
	p.own.Add(pool+"/"+name, own)
	return own, nil
}
