package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	"github.com/bunsen-os/bunsen/internal/review"
)

const (
	// for the cached results of one viewer, estimated
	maxBytes = 64 << 20
	// short, because a viewer may lose the right to read configs
	configAge = time.Minute
	// for other reads
	reportAge = 5 * time.Second
	// for the times of nodes, if there are few: the page shows them beside the present states
	timesAge = 2 * time.Second
	// for positions in a repository, which never change for a config, and need a transpilation
	linesAge = 10 * time.Minute
	// for counts over all nodes, which are expensive
	countAge = 30 * time.Second
)

// DetailCache has the results of one viewer's reads for a short time: a page is made again after each change of the
// cluster, and must not repeat every read. The zero value is ready to use, also concurrently.
type DetailCache struct {
	mu      sync.Mutex
	entries map[string]*entry
	bytes   int
}

type entry struct {
	value any
	err   error
	// estimated, in bytes
	size       int
	ends, used time.Time
}

// result: the size is an estimate, in bytes.
type result[T any] struct {
	value T
	size  int
}

// cached returns the result of a read, from the cache until its time ends. A refusal of the API server stays there for
// reportAge; other errors do not.
func cached[T any](c *DetailCache, key string, until [2]time.Time, read func() (result[T], error)) (T, error) {
	now, ends := until[0], until[1]
	c.mu.Lock()
	if e := c.entries[key]; e != nil && now.Before(e.ends) {
		e.used = now
		c.mu.Unlock()
		value, _ := e.value.(T)
		return value, e.err
	}
	c.mu.Unlock()
	got, err := read()
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return got.value, err
	}
	if err != nil {
		ends = now.Add(reportAge)
	}
	c.put(key, &entry{value: got.value, err: err, size: got.size + len(key) + 200, ends: ends, used: now})
	return got.value, err
}

func lasts(now time.Time, age time.Duration) [2]time.Time { return [2]time.Time{now, now.Add(age)} }

// put removes old results, so that the cache stays within its limit.
func (c *DetailCache) put(key string, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]*entry{}
	}
	c.remove(key)
	for k, old := range c.entries {
		if !e.used.Before(old.ends) {
			c.remove(k)
		}
	}
	if e.size > maxBytes {
		return
	}
	for c.bytes+e.size > maxBytes {
		oldest := ""
		for k, old := range c.entries {
			if oldest == "" || old.used.Before(c.entries[oldest].used) {
				oldest = k
			}
		}
		c.remove(oldest)
	}
	c.entries[key] = e
	c.bytes += e.size
}

func (c *DetailCache) remove(key string) {
	if e := c.entries[key]; e != nil {
		c.bytes -= e.size
		delete(c.entries, key)
	}
}

func (s DetailSession) config(ctx context.Context, name string, now time.Time) (*mcfgv1.MachineConfig, error) {
	return cached(s.Cache, "mc/"+name, lasts(now, configAge), func() (result[*mcfgv1.MachineConfig], error) {
		mc := &mcfgv1.MachineConfig{}
		if err := s.Reader().Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return result[*mcfgv1.MachineConfig]{}, fmt.Errorf("reading MachineConfig %s: %w", name, err)
		}
		mc.ManagedFields = nil
		return result[*mcfgv1.MachineConfig]{mc, len(mc.Spec.Config.Raw)}, nil
	})
}

type compared struct {
	from, to review.Pool
	// the nodes with configs of their own that differ and were not read
	unread int
}

// maxChangedNodes limits the nodes whose own configs are read for a comparison, two for each.
const maxChangedNodes = 100

// pools reads two rendered configs as the sides of a comparison, with the configs of single nodes that differ. If both
// were rendered from the table of nodes that the cluster has, it reads no config of a single node.
func (s DetailSession) pools(ctx context.Context, x pair, now time.Time) (compared, error) {
	key := fmt.Sprintf("pools/%q/%q", x.from, x.to)
	return cached(s.Cache, key, lasts(now, configAge), func() (result[compared], error) {
		var none result[compared]
		was, err := s.config(ctx, x.from.config, now)
		is, err2 := s.config(ctx, x.to.config, now)
		if err = errors.Join(err, err2); err != nil {
			return none, err
		}
		// The result has the parsed configs, and their lineage when a difference needs it.
		size := 4 * (len(was.Spec.Config.Raw) + len(is.Spec.Config.Raw))
		change, err := review.NewLiveChange([2]string{x.from.pool, x.to.pool}, [2]*mcfgv1.MachineConfig{was, is})
		if err != nil {
			return none, err
		}
		changed := change.ChangedNodes()
		if len(changed) > 1 && x.from.pool == x.to.pool {
			table, err := s.config(ctx, machineconfig.FactName(x.to.pool), now)
			if err != nil && !apierrors.IsNotFound(err) {
				return none, err
			}
			if err == nil {
				if from, to, ok := change.WithTable(table); ok {
					size += 8 * len(table.Spec.Config.Raw)
					return result[compared]{compared{from: from, to: to}, size}, nil
				}
			}
		}
		read := changed[:min(len(changed), maxChangedNodes)]
		live := map[string]*mcfgv1.MachineConfig{}
		for _, name := range change.ConfigsOf(read) {
			if live[name], err = s.config(ctx, name, now); err != nil {
				return none, err
			}
			size += 4 * len(live[name].Spec.Config.Raw)
		}
		from, to, err := change.With(read, live)
		return result[compared]{compared{from, to, len(changed) - len(read)}, size}, err
	})
}

// maxInputs limits the MachineConfigs of one rendered config that are read.
const maxInputs = 500

func (s DetailSession) contents(ctx context.Context, cluster *fleet.Cluster, name string,
	now time.Time,
) (*Contents, error) {
	return cached(s.Cache, "contents/"+name, lasts(now, configAge), func() (result[*Contents], error) {
		var none result[*Contents]
		mc, err := s.config(ctx, name, now)
		if err != nil {
			return none, err
		}
		var names map[string]string
		if raw := mc.Annotations[v1alpha1.InputsAnnotation]; raw != "" {
			if err := json.Unmarshal([]byte(raw), &names); err != nil {
				return none, fmt.Errorf("reading annotation %s of MachineConfig %s: %w", v1alpha1.InputsAnnotation,
					name, err)
			}
		}
		if len(names) > maxInputs {
			return none, fmt.Errorf("reading the inputs of MachineConfig %s: it has %d, and a page reads at most %d; "+
				"`bunsen trace %s` reads all", name, len(names), maxInputs, name)
		}
		live := map[string]*mcfgv1.MachineConfig{}
		var inputs []*mcfgv1.MachineConfig
		for input := range names {
			of, err := s.config(ctx, input, now)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return none, err
			}
			live[input] = of
			inputs = append(inputs, of)
		}
		t, err := history.TraceRendered(mc, live, cluster.Sources,
			poolAnnotations(cluster, v1alpha1.RenderedPool(name)))
		if err != nil {
			return none, err
		}
		c, err := ContentsOf(mc, t, inputs, s.lines(ctx, name, now))
		if err != nil {
			return none, err
		}
		size := 0
		for _, it := range c.Items {
			size += len(it.Kind) + len(it.Name) + len(it.Origin) + 64
		}
		return result[*Contents]{&c, size}, nil
	})
}

// lines finds the lines of a repository that set the items of a rendered config, if a clone is on this machine.
func (s DetailSession) lines(ctx context.Context, name string, now time.Time) ContentLines {
	if s.Lines == nil {
		return ContentLines{}
	}
	// A note on the page contains the error.
	lines, _ := cached(s.Cache, "lines/"+name, lasts(now, linesAge), func() (result[ContentLines], error) {
		lines := s.Lines(ctx, name)
		size := 0
		for item, at := range lines.At {
			size += len(item) + len(at) + 64
		}
		return result[ContentLines]{lines, size}, ctx.Err()
	})
	return lines
}

// poolAnnotations is nil if the pool does not exist.
func poolAnnotations(c *fleet.Cluster, pool string) map[string]string {
	for i := range c.Pools {
		if c.Pools[i].Name == pool {
			return c.Pools[i].Annotations
		}
	}
	return nil
}
