package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/peers"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// The states in which a pool is rendered.
const (
	cold    = "from nothing"
	changed = "one fragment changed"
	same    = "nothing changed"
)

// atOnce is how often a task of microseconds is repeated in one measurement.
const atOnce = 20

// cpuGoals are the goals by number of fragments. Without an entry, only the growth has a goal.
var cpuGoals = map[int]time.Duration{100: 100 * time.Millisecond, 1000: time.Second}

// measure adds the rows of one size.
func (s shape) measure(t *measure.Table, limit measure.Limit, n int) error {
	mcs := s.documents.MachineConfigs(n)
	pools := s.pools(mcs)
	both, err := limit.Together(func(int) (measure.Sample, error) {
		return measure.Of(func() error { return s.accept(merge(new(render.Renderer), pools)) })
	}, func(int) (measure.Sample, error) { return measure.Of(func() error { return original(pools) }) })
	if err != nil {
		return err
	}
	peer := []measure.Peer{measure.Took(peers.Original, both[1].CPU)}
	t.Add(measure.Row{
		What: cold, Size: n, Sample: both[0], Peers: peer,
		Goal: measure.Goal{CPU: cpuGoals[n], Ratio: 1, Growth: 1.05},
	})

	if s.refused {
		return nil
	}
	return s.again(t, limit, mcs, peer)
}

// again adds the rows of a renderer with a filled cache.
func (s shape) again(t *measure.Table, limit measure.Limit, mcs []*mcfgv1.MachineConfig, peer []measure.Peer) error {
	n, pools := len(mcs), s.pools(mcs)
	warm := new(render.Renderer)
	if err := merge(warm, pools); err != nil {
		return err
	}
	generation := 0
	one, err := limit.Median(func(int) (measure.Sample, error) {
		generation++
		mcs[n/2] = s.documents.MachineConfig(n/2, generation)
		pools = s.pools(mcs)
		return measure.Of(func() error { return merge(warm, pools) })
	})
	if err != nil {
		return err
	}
	t.Add(measure.Row{What: changed, Size: n, Sample: one, Goal: measure.Goal{CPU: 10 * time.Millisecond}, Peers: peer})

	both, err := limit.Together(func(int) (measure.Sample, error) {
		return measure.Many(atOnce, func() error { return merge(warm, pools) })
	}, func(int) (measure.Sample, error) {
		return measure.Many(atOnce, func() error { hash(mcs); return nil })
	})
	if err != nil {
		return err
	}
	t.Add(measure.Row{
		What: same, Size: n, Sample: both[0], Goal: measure.Goal{Ratio: mostHashes, Growth: 1.1},
		Peers: append([]measure.Peer{measure.Took("SHA-256 of the bytes", both[1].CPU)}, peer...),
	})
	return nil
}

// mostHashes is the goal for a pool in which nothing changed: only digests of its configs are needed to see that.
const mostHashes = 2

// hash computes a digest of each config.
func hash(mcs []*mcfgv1.MachineConfig) {
	for _, mc := range mcs {
		sha256.Sum256(mc.Spec.Config.Raw)
	}
}

// accept ignores the error for a config that is too large for a cluster.
func (s shape) accept(err error) error {
	if s.refused && errors.Is(err, render.ErrTooLarge) {
		return nil
	}
	return err
}

// pools groups MachineConfigs like pool selectors.
func (s shape) pools(mcs []*mcfgv1.MachineConfig) [][]*mcfgv1.MachineConfig {
	if s.most == 0 {
		return [][]*mcfgv1.MachineConfig{mcs}
	}
	return slices.Collect(slices.Chunk(mcs, s.most))
}

// original renders the pools by the rules of the original.
func original(pools [][]*mcfgv1.MachineConfig) error {
	for i, mcs := range pools {
		if _, err := peers.Merge(poolName(i), mcs); err != nil {
			return err
		}
	}
	return nil
}

func poolName(i int) string { return fmt.Sprintf("pool-%02d", i) }

func merge(r *render.Renderer, pools [][]*mcfgv1.MachineConfig) error {
	for i, mcs := range pools {
		if _, err := r.Merge(poolName(i), mcs, render.Defaults{}); err != nil {
			return err
		}
	}
	return nil
}
