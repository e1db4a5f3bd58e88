package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/membership"
	"github.com/bunsen-os/bunsen/mcs"
)

// cacheNodesDelay collects changes before they are cached.
const cacheNodesDelay = time.Second

// maxConfigReads limits the rendered configs that are read at a time: each has a megabyte and more.
const maxConfigReads = 8

// asMetadata is for the header Accept.
const asMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// nodes decides which configs nodes may read, and reads them. It reads the Node for each request, so that one that left
// a pool can no longer read its configs. While the API server is unreachable, it uses cached configs and the pools of
// the last read.
type nodes struct {
	api   clients
	pools *pools
	cache *Cache
	log   *slog.Logger

	// reads merges concurrent reads of one config. turns limits them, because each needs several times its size in
	// memory.
	reads singleflight.Group
	turns *semaphore.Weighted
	// the hashes of the files in the content store, by the name of the config
	stored *lru.Cache[string, []string]

	mu sync.Mutex
	// the pools of each node as last read; nil until they are read from the cache
	known   map[string][]string
	changed chan struct{}
	// of rendered configs, as JSON, by name; only those that a pool refers to
	contents map[string][]byte
	// of single nodes, to which no pool refers itself
	own *ownConfigs
}

// NodeConfig returns a rendered config as JSON, for a node in its pool. The error is an *mcs.NotForNodeError if the
// node is in another pool, and mcs.ErrNoSuchConfig if there is none. It wraps mcs.ErrAPIUnavailable or mcs.ErrNotSynced
// if neither the API server nor the cache has it.
func (c *Cluster) NodeConfig(ctx context.Context, node, config string) ([]byte, error) {
	// A client that disconnects does not cancel the read, which would look like an unreachable API server.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	pools, err := c.nodes.poolsOf(ctx, node)
	if refused := new(mcs.NotForNodeError); errors.As(err, &refused) {
		refused.Config = config
	}
	if err == nil {
		err = mcs.CheckNodeConfig(node, pools, config)
	}
	if err != nil {
		return nil, err
	}
	raw, err := c.nodes.content(ctx, config)
	if err != nil {
		return nil, err
	}
	list, read := c.nodes.pools.list(), func(name string) ([]byte, error) {
		if name == config {
			return raw, nil
		}
		return c.nodes.content(ctx, name)
	}
	err = CheckVariants(node, config, list, read)
	if errors.As(err, new(*mcs.NotForNodeError)) && !c.nodes.pools.informer.HasSynced() {
		// A pool that is not known yet may give it to the node.
		return nil, fmt.Errorf("%w: the nodes of config %s are not known", mcs.ErrNotSynced, config)
	}
	if err != nil {
		return nil, err
	}
	if !c.nodes.pools.isReferenced(config) && IsOwn(config, list, read) {
		c.nodes.own.put(config, raw)
	}
	return raw, nil
}

// machineConfig returns the config of a single node for a new machine of it, as JSON, and keeps it. The errors are
// those of NodeConfig.
func (n *nodes) machineConfig(name string) ([]byte, error) {
	raw, err := n.content(context.Background(), name)
	if err == nil && !n.pools.isReferenced(name) {
		n.own.put(name, raw)
	}
	return raw, err
}

// NodePools returns the pools of a node; none if no pool selects the node. The errors are those of NodeConfig.
func (c *Cluster) NodePools(ctx context.Context, node string) ([]string, error) {
	// As in NodeConfig.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	return c.nodes.poolsOf(ctx, node)
}

// poolsOf returns an *mcs.NotForNodeError without a config if the node has no pool.
func (n *nodes) poolsOf(ctx context.Context, node string) ([]string, error) {
	pools, _, err := n.readNode(ctx, node)
	return pools, err
}

// readNode returns the pools of a node, and the configs that it reports, none if the answer is from the cache. The
// errors are those of poolsOf.
func (n *nodes) readNode(ctx context.Context, node string) (pools, reported []string, err error) {
	if !n.pools.informer.HasSynced() {
		pools, err = n.cachedPools(node, mcs.ErrNotSynced)
		return pools, nil, err
	}
	read := &metav1.PartialObjectMetadata{}
	raw, err := n.api.core.Get().Resource("nodes").Name(node).SetHeader("Accept", asMetadata).Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(raw, read)
	}
	if apierrors.IsNotFound(err) {
		n.setPools(node, nil)
		return nil, nil, &mcs.NotForNodeError{Node: node, Why: errors.New("there is no Node of that name")}
	}
	if err != nil {
		unavailable := fmt.Errorf("%w: reading node %s: %w", mcs.ErrAPIUnavailable, node, err)
		if !fault.IsUnknown(fault.APIRequest(err)) { // The API server refused the request.
			return nil, nil, unavailable
		}
		pools, err = n.cachedPools(node, unavailable)
		return pools, nil, err
	}
	_, all, err := membership.New(n.pools.list()).For(node, read.Labels)
	n.setPools(node, all)
	if err != nil {
		return nil, nil, &mcs.NotForNodeError{Node: node, Why: err}
	}
	for _, name := range []string{v1alpha1.CurrentConfigAnnotation, v1alpha1.DesiredConfigAnnotation} {
		reported = append(reported, v1alpha1.ParseConfigVersion(read.Annotations[name]).Config)
	}
	return all, reported, nil
}

// cachedPools returns the pools of a node as last read, or else err. It is for an unreachable API server only.
func (n *nodes) cachedPools(node string, err error) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loadLocked()
	if pools := n.known[node]; len(pools) > 0 {
		return pools, nil
	}
	return nil, err
}

// setPools removes the node if it has none.
func (n *nodes) setPools(node string, pools []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loadLocked()
	if slices.Equal(n.known[node], pools) {
		return
	}
	if n.known[node] = pools; len(pools) == 0 {
		delete(n.known, node)
	}
	select {
	case n.changed <- struct{}{}:
	default: // The channel is full: a change is already pending.
	}
}

// loadLocked reads the cache, once. The caller holds mu.
func (n *nodes) loadLocked() {
	if n.known == nil {
		n.known = n.cache.nodePools()
	}
}

// content returns a rendered config as JSON. Its name identifies its content, so each is read once.
func (n *nodes) content(ctx context.Context, name string) ([]byte, error) {
	n.mu.Lock()
	known := n.contents[name]
	n.mu.Unlock()
	if known != nil {
		return known, nil
	}
	raw, err, _ := n.reads.Do(name, func() (any, error) { return n.read(ctx, name) })
	text, _ := raw.([]byte)
	return text, err
}

// read tries the cache first for a config that a pool refers to.
func (n *nodes) read(ctx context.Context, name string) ([]byte, error) {
	if err := n.turns.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("%w: waiting to read config %s: %w", mcs.ErrAPIUnavailable, name, err)
	}
	defer n.turns.Release(1)
	cached, isCached := n.cache.Get(configPrefix + name)
	if isCached && n.pools.isReferenced(name) {
		n.cacheConfig(name, cached)
		return cached, nil
	}
	if !isCached {
		cached, isCached = n.own.get(name)
	}
	rendered, err := n.pools.read(ctx, name)
	if apierrors.IsNotFound(err) {
		n.own.drop(name)
		return nil, fmt.Errorf("reading config %s: %w", name, mcs.ErrNoSuchConfig)
	}
	if err != nil && isCached {
		return cached, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mcs.ErrAPIUnavailable, err)
	}
	rendered.TypeMeta = metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"}
	raw, err := json.Marshal(rendered)
	if err != nil {
		return nil, fmt.Errorf("encoding config %s: %w", name, err)
	}
	if n.pools.isReferenced(name) {
		n.cacheConfig(name, raw)
	}
	return raw, nil
}

// cacheConfig also removes cached configs that no pool refers to any more.
func (n *nodes) cacheConfig(name string, raw []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.contents[name] = raw
	maps.DeleteFunc(n.contents, func(name string, _ []byte) bool { return !n.pools.isReferenced(name) })
	if err := n.cache.Put(configPrefix+name, raw); err != nil {
		n.log.Warn("caching a config for nodes failed", "config", name, "error", err)
	}
	for _, key := range n.cache.Keys() {
		if config, ok := strings.CutPrefix(key, configPrefix); ok && !n.pools.isReferenced(config) {
			if err := n.cache.Remove(key); err != nil {
				n.log.Warn("removing an unused config from the cache failed", "config", config, "error", err)
			}
		}
	}
}

// runCache caches the pools of nodes soon after they change.
func (n *nodes) runCache(ctx context.Context) {
	for waitForChanges(ctx, n.changed, cacheNodesDelay) {
		n.mu.Lock()
		raw, err := json.Marshal(n.known)
		n.mu.Unlock()
		if err == nil {
			err = n.cache.Put(nodesKey, raw)
		}
		if err != nil {
			n.log.Warn("caching the pools of nodes failed", "error", err)
		}
	}
}

func (p *pools) list() []*mcfgv1.MachineConfigPool {
	var all []*mcfgv1.MachineConfigPool
	for _, object := range p.informer.GetStore().List() {
		if pool, ok := object.(*mcfgv1.MachineConfigPool); ok {
			all = append(all, pool)
		}
	}
	return all
}

// isReferenced reports whether a config is some pool's target, current or last healthy one.
func (p *pools) isReferenced(config string) bool {
	return slices.ContainsFunc(p.list(), func(pool *mcfgv1.MachineConfigPool) bool {
		return slices.Contains(mcs.ConfigsOf(pool), config)
	})
}

// maxStored: the configs whose files in the content store are remembered
const maxStored = 1024

// NodeContent returns nil if a config that the node may run names the file of the content store with a hash. Otherwise
// it is an *mcs.NotForNodeError, or like that of NodeConfig if it is not known.
func (c *Cluster) NodeContent(ctx context.Context, node, hash string) error {
	// As in NodeConfig.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	pools, reported, err := c.nodes.readNode(ctx, node)
	if refused := new(mcs.NotForNodeError); errors.As(err, &refused) {
		refused.Config = "file " + hash
	}
	if err == nil && !c.nodes.pools.informer.HasSynced() {
		err = mcs.ErrNotSynced
	}
	var names []string
	if err == nil {
		names, err = VariantConfigs(VariantNode{Name: node, Pools: pools, Reported: reported}, c.nodes.pools.list(),
			func(name string) ([]byte, error) { return c.nodes.content(ctx, name) })
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		stored, err := c.nodes.storedIn(ctx, name)
		switch {
		case err == nil && slices.Contains(stored, hash):
			return nil
		case err != nil && !errors.Is(err, mcs.ErrNoSuchConfig):
			return err
		}
	}
	if reported == nil {
		return fmt.Errorf("%w: which configs node %s may run is not known", mcs.ErrAPIUnavailable, node)
	}
	return &mcs.NotForNodeError{
		Node: node, Config: "file " + hash,
		Why: errors.New("no config that it may run names the file"),
	}
}

// storedIn returns the hashes of a config's files that are in the content store. Its name identifies its content, so
// each is read once.
func (n *nodes) storedIn(ctx context.Context, name string) ([]string, error) {
	if hashes, known := n.stored.Get(name); known {
		return hashes, nil
	}
	raw, err := n.content(ctx, name)
	if err != nil {
		return nil, err
	}
	rendered := &mcfgv1.MachineConfig{}
	if err := json.Unmarshal(raw, rendered); err != nil {
		return nil, fmt.Errorf("reading config %s: %w", name, err)
	}
	hashes := mcs.StoredHashes(rendered)
	n.stored.Add(name, hashes)
	return hashes, nil
}

// Of the configs of single nodes that are kept for times without the API server: on disk with a cache, or in memory.
const (
	maxOwnConfigs                = 2000
	maxOwnOnDisk, maxOwnInMemory = 256 << 20, 64 << 20
	// of these configs in the cache
	ownPrefix = "own-"
)

// ownConfigs keeps the configs of single nodes that were needed last. Who may read them is decided elsewhere.
type ownConfigs struct {
	cache *Cache
	log   *slog.Logger

	mu              sync.Mutex
	recent          *simplelru.LRU[string, ownConfig]
	bytes, maxBytes int
}

type ownConfig struct {
	size int
	raw  []byte // only without a cache
}

func newOwnConfigs(cache *Cache, log *slog.Logger) *ownConfigs {
	o := &ownConfigs{cache: cache, log: log, maxBytes: maxOwnInMemory}
	var err error
	if o.recent, err = simplelru.NewLRU(maxOwnConfigs, o.removed); err != nil {
		panic(err) // The only possible error is a size that is not positive.
	}
	if cache == nil {
		return o
	}
	o.maxBytes = maxOwnOnDisk
	for _, key := range cache.Keys() { // An earlier process kept them.
		if name, ok := strings.CutPrefix(key, ownPrefix); ok {
			raw, _ := cache.Get(key)
			o.add(name, ownConfig{size: len(raw)})
		}
	}
	return o
}

func (o *ownConfigs) put(name string, raw []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cache == nil {
		o.add(name, ownConfig{len(raw), raw})
		return
	}
	if err := o.cache.Put(ownPrefix+name, raw); err != nil {
		o.log.Warn("caching the config of a node failed", "config", name, "error", err)
	}
	o.add(name, ownConfig{size: len(raw)})
}

// add also removes those that were needed the longest time ago, until all are within the limits.
func (o *ownConfigs) add(name string, c ownConfig) {
	if before, ok := o.recent.Peek(name); ok {
		o.bytes -= before.size
	}
	o.bytes += c.size
	o.recent.Add(name, c)
	for o.bytes > o.maxBytes {
		o.recent.RemoveOldest()
	}
}

// removed is called for each config that is not kept any more.
func (o *ownConfigs) removed(name string, c ownConfig) {
	o.bytes -= c.size
	if err := o.cache.Remove(ownPrefix + name); err != nil {
		o.log.Warn("removing the config of a node from the cache failed", "config", name, "error", err)
	}
}

func (o *ownConfigs) get(name string) ([]byte, bool) {
	if o.cache != nil {
		return o.cache.Get(ownPrefix + name)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c, ok := o.recent.Peek(name)
	return c.raw, ok
}

// drop is for a config that the cluster no longer has.
func (o *ownConfigs) drop(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recent.Remove(name)
}
