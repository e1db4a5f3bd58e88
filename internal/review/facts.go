package review

import (
	"cmp"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Facts are known facts about the nodes that a change affects.
type Facts struct {
	// Pools by name. The nodes of one without facts are unknown.
	Pools map[string]PoolFacts
}

// PoolFacts are the facts of one pool.
type PoolFacts struct {
	Nodes int
	// Names is nil if only their number is known.
	Names []string
	// MaxUnavailable has percentages resolved. Values below 1 count as 1, the default.
	MaxUnavailable int
	// Paused until a user resumes the pool.
	Paused bool
	// Target is the config that the pool's nodes should run now, and Updated how many of them do; Target is empty if
	// that is unknown. Stopped is the reason of its condition RolloutBlocked; empty if it is not blocked.
	Target  string
	Updated int
	Stopped string
	// Alone are nodes whose pods no other node can run, so that their drain evicts none; nil if unknown.
	Alone []string
}

// FactsOf returns the facts of a pool of a cluster that has these nodes. The parameter most is how many of them may be
// away at once: the pool's own maxUnavailable, or that of a RolloutPolicy.
func FactsOf(pool *mcfgv1.MachineConfigPool, names []string, most *intstr.IntOrString) (PoolFacts, error) {
	out := PoolFacts{
		Nodes: len(names), Names: slices.Clone(names), Paused: pool.Spec.Paused,
		Target: pool.Spec.Configuration.Name, Updated: int(pool.Status.UpdatedMachineCount),
	}
	if out.Names == nil {
		out.Names = []string{}
	}
	for _, c := range pool.Status.Conditions {
		if c.Type == v1alpha1.RolloutBlockedCondition && c.Status == corev1.ConditionTrue {
			out.Stopped = c.Reason
		}
	}
	var err error
	out.MaxUnavailable, err = poolstate.MaxUnavailable(pool.Name, most, out.Nodes)
	return out, err
}

// Rollout is the forecast of a pool's rollout.
type Rollout struct {
	// AtOnce is the maximum number that is updated at once.
	Nodes  int `json:"nodes"`
	AtOnce int `json:"atOnce"`
	// The nodes that reboot, and that are drained.
	Reboots int `json:"reboots"`
	Drains  int `json:"drains"`
	// Paused: the minutes begin when a user resumes the pool.
	Paused bool `json:"paused,omitempty"`
	// Updated is how many nodes run the config, if it is the target of the pool already; otherwise nil. Stopped says in
	// one word why no others get it now, such as Halted.
	Updated *int   `json:"updated,omitempty"`
	Stopped string `json:"stopped,omitempty"`
	// NotEvicted is how many nodes reboot with their pods, because no other node can run them; 0 if the cluster is
	// unknown.
	NotEvicted int `json:"notEvicted,omitempty"`
	// MinMinutes and MaxMinutes are 0 if the nodes do nothing.
	MinMinutes int `json:"minMinutes"`
	MaxMinutes int `json:"maxMinutes"`
}

type seconds struct{ min, max int }

// For one node each. The ranges are wide because the machines are unknown. A virtual machine restarts in a minute, a
// server with much memory in ten. Pods end at once, or after a long grace period. Maintenance windows, approvals,
// failed nodes, and disruption budgets that never allow an eviction are left out. docs/review.md lists the assumptions,
// and a test compares its list with these values.
var (
	// to get the config, write files, reload and restart services, and report
	applying = seconds{5, 60}
	draining = seconds{30, 10 * 60}
	// from the end of the drain until the node is Ready again
	rebooting = seconds{2 * 60, 12 * 60}
	// to fetch another image, kernel or extension
	staging = seconds{60, 15 * 60}
)

// WithFacts adds the forecast of each pool that has facts. Each node counts once: in the entry of the nodes with
// configs of their own whose change is its own, or in that of the nodes without one; a node whose own config stays
// counts in neither. With the names of the nodes, that is exact, and an entry says which do not exist yet, such as rows
// for machines to come. Without them, they are taken to exist, as far as the pool has so many.
func (c Comparison) WithFacts(f Facts) Comparison {
	pools, left := make([]PoolChange, len(c.Pools)), map[string]int{}
	live := map[string]map[string]bool{}
	for pool, known := range f.Pools {
		left[pool] = known.Nodes
		if known.Names == nil {
			continue
		}
		live[pool] = map[string]bool{}
		for _, name := range known.Names {
			live[pool][name] = true
		}
	}
	add := func(i, nodes int) {
		p := &c.Pools[i]
		known := f.Pools[p.PoolName()]
		known.Alone = slices.DeleteFunc(slices.Clone(known.Alone), func(node string) bool {
			if len(p.Nodes) > 0 {
				return !slices.Contains(p.Nodes, node)
			}
			return c.own[p.PoolName()][node]
		})
		known.Nodes = max(0, min(nodes, left[p.PoolName()]))
		left[p.PoolName()] -= known.Nodes
		pools[i].Rollout = forecast(*p, known)
	}
	for i := range c.Pools {
		pools[i] = c.Pools[i]
		pool := c.Pools[i].PoolName()
		switch _, known := f.Pools[pool]; {
		case !known || len(c.Pools[i].Nodes) == 0:
		case live[pool] == nil:
			add(i, len(c.Pools[i].Nodes))
		default:
			pools[i].Absent = nil
			for _, node := range c.Pools[i].Nodes {
				if !live[pool][node] {
					pools[i].Absent = append(pools[i].Absent, node)
				}
			}
			add(i, len(c.Pools[i].Nodes)-len(pools[i].Absent))
		}
	}
	for i := range c.Pools {
		pool := c.Pools[i].PoolName()
		if _, known := f.Pools[pool]; !known || len(c.Pools[i].Nodes) > 0 {
			continue
		}
		others := left[pool]
		if live[pool] != nil {
			others = 0
			for node := range live[pool] {
				if !c.own[pool][node] {
					others++
				}
			}
		} else {
			others -= len(c.own[pool]) - c.inEntries(pool)
		}
		add(i, others)
	}
	c.Pools = pools
	c.Together = c.together(f)
	return c
}

// inEntries counts the nodes with configs of their own that have a change.
func (c Comparison) inEntries(pool string) (nodes int) {
	for i := range c.Pools {
		if c.Pools[i].PoolName() == pool {
			nodes += len(c.Pools[i].Nodes)
		}
	}
	return nodes
}

// RolloutOf returns the forecast of a pool with all of its entries, and whether there is one.
func (c Comparison) RolloutOf(pool string) (Rollout, bool) {
	if r, several := c.Together[pool]; several {
		return r, true
	}
	var sum Rollout
	known := false
	for i := range c.Pools {
		r := c.Pools[i].Rollout
		if r == nil || c.Pools[i].PoolName() != pool {
			continue
		}
		if !known || r.MaxMinutes > 0 {
			sum = *r // At most one entry changes nodes.
		}
		known = true
	}
	return sum, known
}

// together is the forecast of each pool with several entries: all of its nodes are updated in one rollout, those that
// take longest first.
func (c Comparison) together(f Facts) map[string]Rollout {
	type part struct {
		nodes int
		each  seconds
	}
	parts, sums := map[string][]part{}, map[string]Rollout{}
	for i := range c.Pools {
		p, r := &c.Pools[i], c.Pools[i].Rollout
		if r == nil {
			continue
		}
		name := p.PoolName()
		sum := sums[name]
		sum.AtOnce, sum.Paused = r.AtOnce, r.Paused
		if r.MaxMinutes > 0 { // Other entries change no node.
			sum.Nodes, sum.Reboots, sum.Drains = sum.Nodes+r.Nodes, sum.Reboots+r.Reboots, sum.Drains+r.Drains
			sum.NotEvicted += r.NotEvicted
			parts[name] = append(parts[name], part{r.Nodes, p.eachNode()})
		}
		sums[name] = sum
	}
	var out map[string]Rollout
	for name, all := range parts {
		if len(all) < 2 {
			continue
		}
		slices.SortStableFunc(all, func(a, b part) int { return cmp.Compare(b.each.max, a.each.max) })
		var took seconds
		free := 0 // places in the last round
		for _, x := range all {
			more := max(0, x.nodes-free)
			rounds := (more + sums[name].AtOnce - 1) / sums[name].AtOnce
			free += rounds*sums[name].AtOnce - x.nodes
			took = took.plus(seconds{rounds * x.each.min, rounds * x.each.max})
		}
		r := sums[name]
		r.MinMinutes, r.MaxMinutes = roundDown(took.min), roundUp(took.max)
		if out == nil {
			out = map[string]Rollout{}
		}
		out[name] = r
	}
	return out
}

// PoolName returns the name of the pool, also for an entry about nodes with configs of their own.
func (p PoolChange) PoolName() string {
	name, _, _ := strings.Cut(p.Pool, " (") // no name of a pool has a blank
	return name
}

// forecast is nil for a new or removed pool, because a repository does not show which nodes join or leave it.
func forecast(p PoolChange, f PoolFacts) *Rollout {
	if p.From == "" || p.To == "" {
		return nil
	}
	r := &Rollout{Nodes: f.Nodes, AtOnce: max(1, f.MaxUnavailable), Paused: f.Paused}
	if p.To == f.Target && len(p.Nodes) == 0 {
		r.Updated, r.Stopped = &f.Updated, f.Stopped
	}
	if !p.Changed() || len(p.Refused) > 0 || f.Nodes <= 0 {
		return r // No node changes its config.
	}
	if p.Level() >= disruption.Drain {
		r.Drains = f.Nodes
	}
	if p.Level() == disruption.Reboot {
		r.Reboots, r.NotEvicted = f.Nodes, min(f.Nodes, len(f.Alone))
	}
	each := p.eachNode()
	rounds := (f.Nodes + r.AtOnce - 1) / r.AtOnce
	r.MinMinutes, r.MaxMinutes = roundDown(each.min*rounds), roundUp(each.max*rounds)
	return r
}

func (p PoolChange) eachNode() seconds {
	each := applying
	if p.Level() >= disruption.Drain {
		each = each.plus(draining)
	}
	if p.Level() == disruption.Reboot {
		each = each.plus(rebooting)
	}
	if p.stages() {
		each = each.plus(staging)
	}
	return each
}

func (s seconds) plus(o seconds) seconds { return seconds{s.min + o.min, s.max + o.max} }

// Level returns the disruption as a value that can be compared.
func (p PoolChange) Level() disruption.Disruption {
	for d := disruption.None; d < disruption.Reboot; d++ {
		if d.String() == p.Disruption {
			return d
		}
	}
	return disruption.Reboot
}

// stages reports whether nodes fetch an image or packages before they reboot.
func (p PoolChange) stages() bool {
	for _, it := range p.Items {
		switch disruption.ChangeKind(it.Kind) {
		case disruption.KindOSImage, disruption.KindKernelType, disruption.KindExtensions:
			return true
		}
	}
	return false
}

// ladder: an estimate is rounded to these minutes, because it is not more precise than that.
var ladder = []int{1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1080, 1440}

// roundDown returns minutes of the ladder; 0 for less than one.
func roundDown(s int) int {
	minutes, out := s/60, 0
	for _, step := range ladder {
		if step <= minutes {
			out = step
		}
	}
	return max(out, minutes/1440*1440)
}

// roundUp returns minutes of the ladder.
func roundUp(s int) int {
	minutes := (s + 59) / 60
	for _, step := range ladder {
		if step >= minutes {
			return step
		}
	}
	return (minutes + 1439) / 1440 * 1440
}
