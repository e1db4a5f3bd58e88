package render

import (
	"slices"
	"strings"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Renderer renders pools. For each pool, a Renderer caches the last answer and the parsed MachineConfigs. If no
// MachineConfig has changed, a call only computes digests. If one MachineConfig has changed, the Renderer parses only
// this MachineConfig again. Pools share parsed MachineConfigs. The zero value of Renderer is ready for use, and safe
// for concurrent use.
type Renderer struct {
	mu    sync.Mutex
	pools map[string]answer
}

// answer is the last answer for a pool. answer is immutable.
type answer struct {
	key      digest
	rendered Rendered
	err      error
	inputs   map[digest]Input
}

// Merge returns the result of Merge. Callers share the result and must not change it.
func (r *Renderer) Merge(pool string, mcs []*mcfgv1.MachineConfig, d Defaults) (Rendered, error) {
	mcs = slices.SortedStableFunc(slices.Values(mcs), func(a, b *mcfgv1.MachineConfig) int {
		return strings.Compare(a.Name, b.Name)
	})
	key := digestOfAll(mcs, d)
	last, known := r.recall(pool)
	if last.inputs != nil && last.key == key {
		return last.rendered, last.err
	}
	now := answer{key: key, inputs: make(map[digest]Input, len(mcs))}
	inputs := make([]Input, len(mcs))
	for i, mc := range mcs {
		of := digestOf(mc)
		in, ok := find(known, of)
		if !ok {
			in = Read(mc)
		}
		inputs[i], now.inputs[of] = in, in
	}
	now.rendered, now.err = MergeAfter(last.rendered, pool, inputs, d)
	r.remember(pool, now)
	return now.rendered, now.err
}

// Forget removes the cached answer of a deleted pool.
func (r *Renderer) Forget(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, pool)
}

// recall returns the last answer for a pool, and the parsed MachineConfigs of this pool and of all other pools.
func (r *Renderer) recall(pool string) (last answer, known []map[digest]Input) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last = r.pools[pool]
	known = append(known, last.inputs)
	for name, other := range r.pools {
		if name != pool {
			known = append(known, other.inputs)
		}
	}
	return last, known
}

func (r *Renderer) remember(pool string, now answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pools == nil {
		r.pools = map[string]answer{}
	}
	r.pools[pool] = now
}

// find returns a parsed MachineConfig by its digest.
func find(known []map[digest]Input, of digest) (in Input, ok bool) {
	for _, inputs := range known {
		if in, ok = inputs[of]; ok {
			return in, true
		}
	}
	return in, false
}
