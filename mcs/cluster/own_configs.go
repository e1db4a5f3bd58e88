package cluster

import (
	"log/slog"
	"strings"
	"sync"
)

// The limits of the configs of single nodes that the server keeps for times without the API server: on disk with a
// cache, and in memory without one.
const (
	maxOwnConfigs                = 2000
	maxOwnOnDisk, maxOwnInMemory = 256 << 20, 64 << 20
	// ownPrefix begins the keys of these configs in the cache.
	ownPrefix = "own-"
)

// ownConfigs keeps the configs of single nodes that were needed last. It does not decide who may read them.
type ownConfigs struct {
	cache *Cache
	log   *slog.Logger

	mu     sync.Mutex
	recent RecentVariants
	memory map[string][]byte // only without a cache
}

func newOwnConfigs(cache *Cache, log *slog.Logger) *ownConfigs {
	o := &ownConfigs{cache: cache, log: log, memory: map[string][]byte{}}
	o.recent.Most, o.recent.MostBytes = maxOwnConfigs, maxOwnInMemory
	if cache == nil {
		return o
	}
	o.recent.MostBytes = maxOwnOnDisk
	for _, key := range cache.Keys() { // An earlier process kept them.
		if name, ok := strings.CutPrefix(key, ownPrefix); ok {
			raw, _ := cache.Get(key)
			o.remove(o.recent.Use(name, len(raw)))
		}
	}
	return o
}

// put keeps a config.
func (o *ownConfigs) put(name string, raw []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	gone := o.recent.Use(name, len(raw))
	if o.cache == nil {
		o.memory[name] = raw
	} else if err := o.cache.Put(ownPrefix+name, raw); err != nil {
		o.log.Warn("caching the config of a node failed", "config", name, "error", err)
	}
	o.remove(gone)
}

// get returns a config that is kept.
func (o *ownConfigs) get(name string) ([]byte, bool) {
	if o.cache != nil {
		return o.cache.Get(ownPrefix + name)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	raw, ok := o.memory[name]
	return raw, ok
}

// drop removes a config that the cluster no longer has.
func (o *ownConfigs) drop(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.recent.Remove(name) {
		o.remove([]string{name})
	}
}

// remove removes configs from the memory or the disk.
func (o *ownConfigs) remove(names []string) {
	for _, name := range names {
		delete(o.memory, name)
		if err := o.cache.Remove(ownPrefix + name); err != nil {
			o.log.Warn("removing the config of a node from the cache failed", "config", name, "error", err)
		}
	}
}
