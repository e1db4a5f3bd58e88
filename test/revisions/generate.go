package revisions

import "math/rand/v2"

// generator makes one history.
type generator struct {
	*rand.Rand
	out History
	// trees are the newest of each repository, past are earlier ones.
	trees [2]int
	past  [2][]int
}

// Random makes the history of a seed.
func Random(seed uint64) History {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 20))}
	s := &g.out.Setup
	s.Sources = 1 + g.IntN(2)
	for range 1 + g.IntN(3) {
		s.Nodes = append(s.Nodes, g.IntN(len(nodeLabels)))
	}
	s.Foreign = g.IntN(4) == 0
	s.Stuck = s.Sources == 2 && g.IntN(4) == 0
	for repo := range s.Sources {
		for range 1 + g.IntN(3) {
			g.mutate(repo)
		}
		g.push(repo)
		g.add(Source, repo, 1, 1<<20)
	}
	g.settle()
	for range 3 + g.IntN(4) {
		g.episode()
	}
	return g.out
}

func (g *generator) add(v Verb, a, b, c int) {
	g.out.Steps = append(g.out.Steps, Step{v, a, b, c})
}

// repo picks a repository.
func (g *generator) repo() int { return g.IntN(g.out.Setup.Sources) }

// mutate changes one digit of a repository's tree. Flaws are rare, and the next commit often fixes one.
func (g *generator) mutate(repo int) {
	at := g.IntN(len(digits[repo]))
	if g.IntN(5) == 0 {
		at = []int{2, 0}[repo] // the pool: its selectors decide about whole nodes
	}
	if last := len(digits[repo]) - 1; at == last && g.IntN(2) == 0 {
		g.trees[repo] = with(repo, g.trees[repo], last, sound)
		return
	}
	g.trees[repo] = with(repo, g.trees[repo], at, g.IntN(digits[repo][at].values))
}

// pushCommit adds a commit.
func (g *generator) push(repo int) {
	g.past[repo] = append(g.past[repo], g.trees[repo])
	g.add(Push, repo, g.trees[repo], 0)
}

// settle lets the controllers do all that there is to do.
func (g *generator) settle() {
	g.add(Sync, int(theRender), everything, 0)
	for pool := range poolNames {
		g.add(Render, pool, 0, 0)
	}
	g.add(Sync, int(theRollout), everything, 0)
	for pool := range poolNames {
		g.add(Rollout, pool, 0, 0)
		g.add(Sync, int(theRollout), 1<<7, 0)
	}
	g.add(Sync, int(theSource), everything, 0)
}

// episode is a change and what happens around it.
func (g *generator) episode() {
	repo := g.repo()
	switch g.IntN(10) {
	case 0, 1: // a revert
		g.trees[repo] = g.past[repo][g.IntN(len(g.past[repo]))]
		g.push(repo)
	case 2: // no commit
	case 3:
		g.add(Prune, repo, g.IntN(2), 0)
	default:
		for range 1 + g.IntN(3) {
			g.mutate(repo)
		}
		g.push(repo)
	}
	for range g.IntN(3) {
		g.disturb()
	}
	if g.IntN(6) == 0 {
		g.add(Source, g.repo(), 61, 1<<20)
	} else {
		g.add(Source, repo, []int{61, 61, 5, 660}[g.IntN(4)], g.IntN(4))
		for range 2 + g.IntN(5) {
			g.between()
		}
		g.add(Write, 1<<20, 0, 0)
	}
	if g.IntN(4) == 0 { // before anything is rendered
		g.add(Sync, int(theRollout), everything, 0)
		for range 2 {
			g.add(Rollout, g.IntN(3), 0, 0)
		}
	}
	for range g.IntN(5) {
		g.disturb()
	}
	if g.IntN(3) == 0 {
		g.settle()
	}
}

// between is what happens between two writes.
func (g *generator) between() {
	if g.IntN(4) == 0 {
		g.settle()
	}
	for range g.IntN(4) {
		g.disturb()
	}
	outcome := done
	if g.IntN(6) == 0 {
		outcome = g.IntN(outcomes)
	}
	g.add(Write, 1+g.IntN(3), outcome, 0)
}

// disturb adds one step of any kind.
func (g *generator) disturb() {
	switch n := g.IntN(40); {
	case n < 9:
		g.add(Sync, g.IntN(int(controllers)), g.IntN(everything+1), g.IntN(4)*g.IntN(2))
	case n < 17:
		g.add(Render, g.IntN(len(poolNames)), max(0, g.IntN(40)-24), g.IntN(2)*g.IntN(everything+1))
	case n < 25:
		g.add(Rollout, g.IntN(len(poolNames)), []int{0, 0, everything, g.IntN(everything + 1)}[g.IntN(4)], 0)
	case n < 28:
		repo := g.repo()
		g.mutate(repo)
		g.push(repo)
	case n < 30:
		g.add(Edit, g.IntN(len(targets)), g.IntN(15), 0)
	case n < 31:
		g.add(Remove, g.IntN(len(targets)), 0, 0)
	case n < 33:
		g.add(Relabel, g.IntN(3), g.IntN(len(nodeLabels)), 0)
	case n < 35:
		g.add(Git, g.repo(), g.IntN(2), 0)
	case n < 36:
		g.add(Suspend, g.repo(), g.IntN(2), 0)
	case n < 37:
		g.add(Restart, 0, 0, 0)
	default:
		g.add(Source, g.repo(), []int{1, 61, 660}[g.IntN(3)], 1<<20)
	}
}
