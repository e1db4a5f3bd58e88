package histories

import (
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Shrink makes a failing history small: it takes away what is not needed for the same rule to be broken.
func Shrink(h History, core Core) History {
	s := shrinker{core: core, rule: Play(h, core).Broken, left: mostTries}
	if s.rule == "" {
		return h
	}
	s.best = h
	for size := -1; size != s.size() && s.left > 0; {
		size = s.size()
		s.cut()
		s.steps()
		s.setup()
	}
	return s.best
}

// mostTries is how many histories a shrinker plays at most.
const mostTries = 4000

type shrinker struct {
	core Core
	rule Rule
	best History
	left int
}

func (s *shrinker) size() int {
	n := len(s.best.Steps)*100 + len(s.best.Setup.Apps) + s.best.Setup.PerNode
	for _, p := range s.best.Setup.Pools {
		n += 100 + 10*p.Machines + p.Zones + p.Budget
	}
	for _, variants := range s.best.Setup.Policies {
		n += 10
		for _, p := range variants {
			n += 5 + len(describePolicy(p))/20
		}
	}
	return n
}

// try keeps a history where it breaks the same rule.
func (s *shrinker) try(h History) bool {
	if s.left <= 0 {
		return false
	}
	s.left--
	if Play(h, s.core).Broken != s.rule {
		return false
	}
	s.best = h
	return true
}

// with is the best history with other steps.
func (s *shrinker) with(steps []Step) History {
	h := s.best
	h.Steps = steps
	return h
}

// cut drops what comes after the failure, and what nothing came of.
func (s *shrinker) cut() {
	r := Play(s.best, s.core)
	if r.At < len(s.best.Steps) {
		s.try(s.with(s.best.Steps[:r.At+1]))
	}
	r = Play(s.best, s.core)
	var moved []Step
	for i, step := range s.best.Steps {
		if r.Moved[i] {
			moved = append(moved, step)
		}
	}
	s.try(s.with(moved))
}

// steps drops runs of steps, long ones first.
func (s *shrinker) steps() {
	for size := len(s.best.Steps) / 2; size >= 1; size /= 2 {
		for from := len(s.best.Steps) - size; from >= 0; from -= size {
			if from+size <= len(s.best.Steps) {
				s.try(s.with(slices.Delete(slices.Clone(s.best.Steps), from, from+size)))
			}
		}
	}
}

// setup makes the beginning simpler.
func (s *shrinker) setup() {
	for i := len(s.best.Setup.Pools) - 1; i >= 0 && len(s.best.Setup.Pools) > 1; i-- {
		s.try(s.without(i))
	}
	change := func(edit func(*Setup)) bool {
		h := s.best
		h.Setup = h.Setup.clone()
		edit(&h.Setup)
		return s.try(h)
	}
	for i := range s.best.Setup.Pools {
		for s.best.Setup.Pools[i].Machines > 1 && change(func(x *Setup) { x.Pools[i].Machines-- }) {
		}
		change(func(x *Setup) { x.Pools[i].Zones = 0 })
		change(func(x *Setup) { x.Pools[i].Budget = 0 })
	}
	change(func(x *Setup) { x.Apps, x.PerNode = nil, 0 })
	change(func(x *Setup) { x.PerNode = 1 })
	change(func(x *Setup) { x.Mercy = 0 })
	for i := len(s.best.Setup.Policies) - 1; i >= 0; i-- {
		if i == len(s.best.Setup.Policies)-1 && change(func(x *Setup) { x.Policies = x.Policies[:i] }) {
			continue
		}
		change(func(x *Setup) { x.Policies[i] = x.Policies[i][:1] })
		for v := range s.best.Setup.Policies[i] {
			for _, simpler := range simplifications {
				change(func(x *Setup) { simpler(&x.Policies[i][v]) })
			}
		}
	}
	s.simpler()
}

// simpler makes numbers in steps smaller.
func (s *shrinker) simpler() {
	for i := range s.best.Steps {
		edit := func(edit func(*Step)) {
			steps := slices.Clone(s.best.Steps)
			if edit(&steps[i]); steps[i] != s.best.Steps[i] {
				s.try(s.with(steps))
			}
		}
		switch s.best.Steps[i].Verb {
		case Push:
			edit(func(x *Step) { x.B %= 3 })
			edit(func(x *Step) { x.B = x.B / 3 * 3 })
			for b := range maxMachines {
				edit(func(x *Step) { x.C &^= 1 << b })
			}
			for b := range len(s.best.Setup.Pools) {
				edit(func(x *Step) { x.A &^= 1 << b })
			}
		case Sync, Drain:
			edit(func(x *Step) { x.B = hearNodes | hearPools })
		case Tick:
			edit(func(x *Step) { x.B /= 2 })
		}
	}
}

// without is the best history without a pool: the numbers of later pools and machines move up.
func (s *shrinker) without(pool int) History {
	h := s.best
	h.Setup = h.Setup.clone()
	first := 0
	for _, p := range h.Setup.Pools[:pool] {
		first += p.Machines
	}
	count := h.Setup.Pools[pool].Machines
	h.Setup.Pools = slices.Delete(h.Setup.Pools, pool, pool+1)
	h.Steps = nil
	for _, step := range s.best.Steps {
		if step, ok := step.without(pool, first, count); ok {
			h.Steps = append(h.Steps, step)
		}
	}
	return h
}

// without is the step in a cluster that has a pool less, whose machines were those from first on.
func (s Step) without(pool, first, count int) (Step, bool) {
	switch s.Verb {
	case Drain, Daemon, Machine, Cordon, Uncordon, DeleteNode, Move, NodeGate, RetryNode, Ill, Well, Drift, Mend,
		Repair:
		if s.A >= first && s.A < first+count || s.Verb == Move && s.B == pool {
			return s, false
		}
		if s.A >= first+count {
			s.A -= count
		}
		if s.Verb == Move && s.B > pool {
			s.B--
		}
	case Sync, Render, Pause, Resume, Budget, RetryPool, OpenUntil, AddNode:
		if s.A == pool {
			return s, false
		}
		if s.A > pool {
			s.A--
		}
	case Push:
		low := s.A & (1<<pool - 1)
		s.A = low | s.A>>(pool+1)<<pool
		s.C = s.C&(1<<first-1) | s.C>>(first+count)<<first
		return s, s.A != 0
	}
	return s, true
}

func (s Setup) clone() Setup {
	s.Pools, s.Apps, s.Policies = slices.Clone(s.Pools), slices.Clone(s.Apps), slices.Clone(s.Policies)
	for i, variants := range s.Policies {
		s.Policies[i] = make([]v1alpha1.RolloutPolicySpec, len(variants))
		for k := range variants {
			variants[k].DeepCopyInto(&s.Policies[i][k])
		}
	}
	return s
}

// simplifications take one aspect from a policy each.
var simplifications = []func(*v1alpha1.RolloutPolicySpec){
	func(p *v1alpha1.RolloutPolicySpec) { p.Pools = nil },
	func(p *v1alpha1.RolloutPolicySpec) { p.MaxUnavailable = nil },
	func(p *v1alpha1.RolloutPolicySpec) { p.MaxUnavailablePerZone = nil },
	func(p *v1alpha1.RolloutPolicySpec) { p.MaxUnavailableTogether = nil },
	func(p *v1alpha1.RolloutPolicySpec) { p.Canary = nil },
	func(p *v1alpha1.RolloutPolicySpec) {
		if p.Canary != nil {
			p.Canary.Soak.Duration = 0
		}
	},
	func(p *v1alpha1.RolloutPolicySpec) { p.Batches = nil },
	func(p *v1alpha1.RolloutPolicySpec) {
		for i := range p.Batches {
			p.Batches[i].Soak.Duration = 0
		}
	},
	func(p *v1alpha1.RolloutPolicySpec) { p.Batches = p.Batches[:max(0, len(p.Batches)-1)] },
	func(p *v1alpha1.RolloutPolicySpec) { p.Gates = nil },
	func(p *v1alpha1.RolloutPolicySpec) { p.Gates = p.Gates[:max(0, len(p.Gates)-1)] },
	func(p *v1alpha1.RolloutPolicySpec) { p.Failures = nil },
	func(p *v1alpha1.RolloutPolicySpec) {
		if p.Failures != nil {
			p.Failures.NodeDeadline = nil
		}
	},
	func(p *v1alpha1.RolloutPolicySpec) { p.After = nil },
	func(p *v1alpha1.RolloutPolicySpec) { p.Windows = nil },
	func(p *v1alpha1.RolloutPolicySpec) { p.Drain = nil },
}
