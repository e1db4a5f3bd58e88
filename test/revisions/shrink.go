package revisions

import "slices"

// mostTries is how many histories Shrink plays at most.
const mostTries = 1500

// Shrink makes a failing history small: it takes away what is not needed for the same rule to be broken.
func Shrink(h History, core Core) History {
	s := shrinker{core: core, rule: Play(h, core).Broken, left: mostTries, best: h}
	if s.rule == "" {
		return h
	}
	for size := -1; size != s.size() && s.left > 0; {
		size = s.size()
		s.cut()
		s.steps()
		s.setup()
		s.values()
	}
	return s.best
}

type shrinker struct {
	core Core
	rule Rule
	best History
	left int
}

// size of the best history, in no unit.
func (s *shrinker) size() int {
	n := len(s.best.Steps)*1000 + 100*len(s.best.Setup.Nodes) + 100*s.best.Setup.Sources
	for _, step := range s.best.Steps {
		switch step.Verb {
		case Push:
			for _, d := range digits[step.A%2] {
				if value(step.A%2, step.B, d.name) != 0 {
					n += 10
				}
			}
		case Sync, Render, Write:
			n += min(step.B, 10)
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
	return History{s.best.Setup, steps}
}

// cut drops what comes after the failure, and what nothing came of.
func (s *shrinker) cut() {
	r := Play(s.best, s.core)
	s.try(s.with(s.best.Steps[:r.At]))
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
	edit := func(change func(*Setup)) {
		h := s.best
		h.Setup.Nodes = slices.Clone(h.Setup.Nodes)
		change(&h.Setup)
		s.try(h)
	}
	edit(func(x *Setup) { x.Sources = 1 })
	edit(func(x *Setup) { x.Stuck = false })
	edit(func(x *Setup) { x.Foreign = false })
	for range s.best.Setup.Nodes {
		edit(func(x *Setup) { x.Nodes = x.Nodes[:max(0, len(x.Nodes)-1)] })
	}
	for i := range s.best.Setup.Nodes {
		edit(func(x *Setup) { x.Nodes[i] = 0 })
	}
}

// values makes the numbers of steps smaller.
func (s *shrinker) values() {
	for i := range s.best.Steps {
		edit := func(change func(*Step)) {
			steps := slices.Clone(s.best.Steps)
			if change(&steps[i]); steps[i] != s.best.Steps[i] {
				s.try(s.with(steps))
			}
		}
		switch step := s.best.Steps[i]; step.Verb {
		case Push:
			for at := range digits[step.A%2] {
				edit(func(x *Step) { x.B = with(x.A%2, x.B, at, 0) })
			}
		case Sync:
			for bit := range kinds {
				edit(func(x *Step) { x.B &^= 1 << bit })
			}
			edit(func(x *Step) { x.C = 0 })
		case Rollout:
			edit(func(x *Step) { x.B = 0 })
		case Render:
			edit(func(x *Step) { x.B = 0 })
			edit(func(x *Step) { x.C = 0 })
		case Source:
			edit(func(x *Step) { x.C = 1 << 20 })
			edit(func(x *Step) { x.B = 61 })
		case Write:
			edit(func(x *Step) { x.A, x.B = 1<<20, done })
			edit(func(x *Step) { x.B = done })
			edit(func(x *Step) { x.A = 1 })
		}
	}
}
