package cluster

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

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
