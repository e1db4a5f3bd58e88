package review

import (
	"strings"

	"github.com/bunsen-os/bunsen/internal/policy"
)

// Facts are known facts about the nodes that a change affects.
type Facts struct {
	// Pools are the facts of each pool, by the pool's name. The nodes of a pool without facts are unknown.
	Pools map[string]PoolFacts
}

// PoolFacts are the facts of one pool.
type PoolFacts struct {
	// Nodes is the number of the pool's nodes.
	Nodes int
	// MaxUnavailable is how many nodes may be out of service at once, with percentages resolved. Values below 1 count
	// as
	// 1, the default.
	MaxUnavailable int
	// Paused is true if the pool's nodes get no config until a user resumes the pool.
	Paused bool
}

// Rollout is the forecast of a pool's rollout.
type Rollout struct {
	// Nodes is the number of the pool's nodes, and AtOnce is the maximum number of nodes that are updated at once.
	Nodes  int `json:"nodes"`
	AtOnce int `json:"atOnce"`
	// Reboots and Drains are how many nodes reboot, and how many are drained.
	Reboots int `json:"reboots"`
	Drains  int `json:"drains"`
	// Paused is the field of the same name in PoolFacts. The minutes begin when a user resumes the pool.
	Paused bool `json:"paused,omitempty"`
	// MinMinutes and MaxMinutes bound the duration of the rollout; both fields are 0 if the nodes do nothing.
	MinMinutes int `json:"minMinutes"`
	MaxMinutes int `json:"maxMinutes"`
}

// seconds is a range of time.
type seconds struct{ min, max int }

// The assumptions of the estimate, for one node each. The ranges are wide because the machines are unknown. A virtual
// machine restarts in a minute, a server with much memory in ten. Pods end at once, or after a long grace period. The
// assumptions do not include maintenance windows, approvals, failed nodes, and disruption budgets that never allow an
// eviction. docs/review.md lists the assumptions, and a test compares its list with these values.
var (
	// applying is the time that every node needs to get the config, write files, reload and restart services, and
	// report.
	applying = seconds{5, 60}
	// draining is the time of a drain.
	draining = seconds{30, 10 * 60}
	// rebooting is the time from the end of the drain until the node is Ready again.
	rebooting = seconds{2 * 60, 12 * 60}
	// staging is the time to fetch another image, kernel or extension.
	staging = seconds{60, 15 * 60}
)

// WithFacts adds the forecast of each pool that has facts. Each node counts in one entry of its pool: in that of the
// nodes with configs of their own, or in that of the other nodes. A table of nodes may have rows for machines that do
// not exist yet, so that the entries have at most as many nodes as the pool.
func (c Comparison) WithFacts(f Facts) Comparison {
	pools, left := make([]PoolChange, len(c.Pools)), map[string]int{}
	for pool, known := range f.Pools {
		left[pool] = known.Nodes
	}
	add := func(i int, nodes int) {
		p := c.Pools[i]
		if known, ok := f.Pools[p.PoolName()]; ok {
			known.Nodes = min(nodes, left[p.PoolName()])
			left[p.PoolName()] -= known.Nodes
			p.Rollout = forecast(p, known)
		}
		pools[i] = p
	}
	for i, p := range c.Pools {
		if len(p.Nodes) > 0 {
			add(i, len(p.Nodes))
		}
	}
	for i, p := range c.Pools {
		if len(p.Nodes) == 0 {
			add(i, left[p.PoolName()])
		}
	}
	c.Pools = pools
	return c
}

// PoolName returns the name of the pool, also for an entry about nodes with configs of their own.
func (p PoolChange) PoolName() string {
	name, _, _ := strings.Cut(p.Pool, " (") // no name of a pool has a blank
	return name
}

// forecast estimates a pool's rollout. forecast returns nil for a new or removed pool, because a repository does not
// show which nodes join or leave it.
func forecast(p PoolChange, f PoolFacts) *Rollout {
	if p.From == "" || p.To == "" {
		return nil
	}
	r := &Rollout{Nodes: f.Nodes, AtOnce: max(1, f.MaxUnavailable), Paused: f.Paused}
	if !p.Changed() || len(p.Refused) > 0 || f.Nodes <= 0 {
		return r // No node changes its config.
	}
	each := applying
	if p.Level() >= policy.Drain {
		r.Drains = f.Nodes
		each = each.plus(draining)
	}
	if p.Level() == policy.Reboot {
		r.Reboots = f.Nodes
		each = each.plus(rebooting)
	}
	if p.stages() {
		each = each.plus(staging)
	}
	rounds := (f.Nodes + r.AtOnce - 1) / r.AtOnce
	r.MinMinutes, r.MaxMinutes = roundDown(each.min*rounds), roundUp(each.max*rounds)
	return r
}

func (s seconds) plus(o seconds) seconds { return seconds{s.min + o.min, s.max + o.max} }

// Level returns the disruption as a value of package policy, which orders disruptions.
func (p PoolChange) Level() policy.Disruption {
	for d := policy.None; d < policy.Reboot; d++ {
		if d.String() == p.Disruption {
			return d
		}
	}
	return policy.Reboot
}

// stages reports whether nodes fetch an image or packages before they reboot.
func (p PoolChange) stages() bool {
	for _, it := range p.Items {
		switch policy.ChangeKind(it.Kind) {
		case policy.KindOSImage, policy.KindKernelType, policy.KindExtensions:
			return true
		}
	}
	return false
}

// ladder are the values to which an estimate is rounded, in minutes, because it is not more precise than that.
var ladder = []int{1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1080, 1440}

// roundDown rounds seconds down to minutes of the ladder; roundDown returns 0 for less than a minute.
func roundDown(s int) int {
	minutes, out := s/60, 0
	for _, step := range ladder {
		if step <= minutes {
			out = step
		}
	}
	return max(out, minutes/1440*1440)
}

// roundUp rounds seconds up to minutes of the ladder.
func roundUp(s int) int {
	minutes := (s + 59) / 60
	for _, step := range ladder {
		if step >= minutes {
			return step
		}
	}
	return (minutes + 1439) / 1440 * 1440
}
