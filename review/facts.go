package review

import (
	"fmt"

	"github.com/bunsen-os/bunsen/policy"
)

// Facts are what is known of the nodes that a change reaches.
type Facts struct {
	// Pools by name; of a pool that is not here nothing is known.
	Pools map[string]PoolFacts
}

// PoolFacts are the facts of one pool.
type PoolFacts struct {
	// Nodes of the pool.
	Nodes int
	// MaxUnavailable is how many nodes may be away at once, percentages resolved; less than 1 counts as 1, the default.
	MaxUnavailable int
	// Paused tells that the pool's nodes are told nothing until somebody resumes it.
	Paused bool
}

// Rollout is the forecast of a pool's roll-out.
type Rollout struct {
	// Nodes of the pool, and how many at most are busy at once.
	Nodes  int `json:"nodes"`
	AtOnce int `json:"atOnce"`
	// Reboots and Drains are how many nodes restart, and from how many pods are moved away.
	Reboots int `json:"reboots"`
	Drains  int `json:"drains"`
	// Paused as in PoolFacts: the minutes count from when the pool is resumed.
	Paused bool `json:"paused,omitempty"`
	// MinMinutes and MaxMinutes are between which the roll-out takes, once it begins; both 0 where nothing happens.
	MinMinutes int `json:"minMinutes"`
	MaxMinutes int `json:"maxMinutes"`
}

// seconds is a range of time.
type seconds struct{ min, max int }

// The assumptions of the estimate, for one node each. They are wide, as nobody knows the machines: a virtual machine
// restarts in a minute, a server with much memory in ten; pods leave at once, or after a long grace period. What is not
// in them: maintenance windows, approvals, disruption budgets that never allow an eviction, nodes that fail.
// docs/review.md repeats them, and a test holds it to that.
var (
	// applying is for every node: it is told, writes files, reloads and restarts services, and reports.
	applying = seconds{5, 60}
	// draining is for nodes whose pods move away first.
	draining = seconds{30, 10 * 60}
	// rebooting is from the last pod's leaving to a node that is Ready again.
	rebooting = seconds{2 * 60, 12 * 60}
	// staging is for another image, kernel or extension, which is fetched first.
	staging = seconds{60, 15 * 60}
)

// WithFacts adds the forecast for each pool of which something is known.
func (c Comparison) WithFacts(f Facts) Comparison {
	pools := make([]PoolChange, len(c.Pools))
	for i, p := range c.Pools {
		if known, ok := f.Pools[p.Pool]; ok {
			p.Rollout = forecast(p, known)
		}
		pools[i] = p
	}
	c.Pools = pools
	return c
}

// forecast is nil for a pool that comes or goes: which nodes join or leave it, and from which config, no repository says.
func forecast(p PoolChange, f PoolFacts) *Rollout {
	if p.From == "" || p.To == "" {
		return nil
	}
	r := &Rollout{Nodes: f.Nodes, AtOnce: max(1, f.MaxUnavailable), Paused: f.Paused}
	if !p.changed() || len(p.Refused) > 0 || f.Nodes <= 0 {
		return r // nothing to do, or nothing that nodes take
	}
	each := applying
	if p.level() >= policy.Drain {
		r.Drains = f.Nodes
		each = each.plus(draining)
	}
	if p.level() == policy.Reboot {
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

// level is the disruption as policy orders it.
func (p PoolChange) level() policy.Disruption {
	for d := policy.None; d < policy.Reboot; d++ {
		if d.String() == p.Disruption {
			return d
		}
	}
	return policy.Reboot
}

// stages tells whether nodes fetch something before they reboot.
func (p PoolChange) stages() bool {
	for _, it := range p.Items {
		switch policy.ChangeKind(it.Kind) {
		case policy.KindOSImage, policy.KindKernelType, policy.KindExtensions:
			return true
		}
	}
	return false
}

// ladder are the minutes that an estimate is rounded to: more digits would claim to know more.
var ladder = []int{1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1080, 1440}

// roundDown gives minutes of seconds, at most what it is; 0 for less than a minute.
func roundDown(s int) int {
	minutes, out := s/60, 0
	for _, step := range ladder {
		if step <= minutes {
			out = step
		}
	}
	return max(out, minutes/1440*1440)
}

// roundUp gives minutes of seconds, at least what it is.
func roundUp(s int) int {
	minutes := (s + 59) / 60
	for _, step := range ladder {
		if step >= minutes {
			return step
		}
	}
	return (minutes + 1439) / 1440 * 1440
}

// words say how long it takes: `5–20 min`, `3–14 h`, `less than a minute`.
func (r Rollout) words() string {
	low, lowUnit := minutesIn(r.MinMinutes)
	high, highUnit := minutesIn(r.MaxMinutes)
	switch {
	case r.MaxMinutes == 0:
		return "no time"
	case r.MinMinutes == 0:
		return "up to " + high + " " + highUnit
	case lowUnit == highUnit && low == high:
		return low + " " + lowUnit
	case lowUnit == highUnit:
		return low + "–" + high + " " + highUnit
	}
	return low + " " + lowUnit + " – " + high + " " + highUnit
}

func minutesIn(m int) (number, unit string) {
	switch {
	case m >= 2880 && m%1440 == 0:
		return fmt.Sprint(m / 1440), "days"
	case m >= 60 && m%60 == 0:
		return fmt.Sprint(m / 60), "h"
	case m >= 60 && m%30 == 0:
		return fmt.Sprintf("%.1f", float64(m)/60), "h"
	}
	return fmt.Sprint(m), "min"
}

// Assumption is a row of what the estimate rests on.
type Assumption struct {
	// What takes the time, and of which nodes.
	What, Of string
	// Min and Max in words.
	Min, Max string
}

// Assumptions lists what the estimate rests on, for one node each.
func Assumptions() []Assumption {
	row := func(what, of string, s seconds) Assumption {
		word := func(n int) string {
			if n < 60 {
				return fmt.Sprintf("%d s", n)
			}
			return fmt.Sprintf("%d min", n/60)
		}
		return Assumption{what, of, word(s.min), word(s.max)}
	}
	return []Assumption{
		row("Being told, writing files, reloading and restarting services, reporting", "every node", applying),
		row("Moving pods away", "nodes that drain or reboot", draining),
		row("From the last pod's leaving to Ready again", "nodes that reboot", rebooting),
		row("Fetching another image, kernel or extension", "nodes that get one", staging),
	}
}
