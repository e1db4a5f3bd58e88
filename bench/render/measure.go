package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// The states in which a pool is rendered. Objects without the metadata of an API server are identified only by their
// content.
const (
	cold    = "from nothing"
	changed = "one fragment changed"
	same    = "nothing changed"

	sameUnstamped = "nothing changed, without stamps"
)

// atOnce is how often a task of microseconds is repeated in one measurement.
const atOnce = 200

// cpuGoals are the goals by number of fragments. Without an entry, only the growth has a goal.
var cpuGoals = map[int]time.Duration{100: 100 * time.Millisecond, 1000: time.Second}

// measure adds the rows of one size.
func (s shape) measure(t *measure.Table, limit measure.Limit, n int) error {
	mcs := s.documents.MachineConfigs(n)
	pools := s.pools(mcs)
	peer := measure.Peer{Name: "mco", CPU: s.quoted[n], Quoted: true}
	first, err := limit.Median(func(int) (measure.Sample, error) {
		return measure.Of(func() error { return s.accept(merge(new(render.Renderer), pools)) })
	})
	if err != nil {
		return err
	}
	t.Add(measure.Row{
		What: cold, Size: n, Sample: first, Goal: measure.Goal{CPU: cpuGoals[n], Growth: 1.05},
		Peer: peer,
	})

	if s.refused {
		return nil
	}
	return s.again(t, limit, mcs, peer)
}

// again adds the rows of a renderer with a filled cache.
func (s shape) again(t *measure.Table, limit measure.Limit, mcs []*mcfgv1.MachineConfig, peer measure.Peer) error {
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
	t.Add(measure.Row{What: changed, Size: n, Sample: one, Goal: measure.Goal{CPU: 10 * time.Millisecond}, Peer: peer})

	none, err := limit.Median(func(int) (measure.Sample, error) {
		return measure.Many(atOnce, func() error { return merge(warm, pools) })
	})
	if err != nil {
		return err
	}
	t.Add(measure.Row{What: same, Size: n, Sample: none, Goal: measure.Goal{CPU: 50 * time.Microsecond}, Peer: peer})

	for _, mc := range mcs {
		mc.UID, mc.ResourceVersion = "", ""
	}
	unstamped, err := limit.Median(func(int) (measure.Sample, error) {
		return measure.Many(atOnce/10, func() error { return merge(warm, pools) })
	})
	t.Add(measure.Row{What: sameUnstamped, Size: n, Sample: unstamped, Peer: peer})
	return err
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

func merge(r *render.Renderer, pools [][]*mcfgv1.MachineConfig) error {
	for i, mcs := range pools {
		if _, err := r.Merge(fmt.Sprintf("pool-%02d", i), mcs, render.Defaults{}); err != nil {
			return err
		}
	}
	return nil
}
