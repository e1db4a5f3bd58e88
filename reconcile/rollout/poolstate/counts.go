package poolstate

// Counts are the numbers of a pool's status.
type Counts struct {
	// Machines is the size of the pool.
	Machines int
	// Updated is how many nodes run the target. Ready is how many of the updated nodes also accept pods.
	Updated, Ready int
	// Unavailable is how many nodes are out of service or at work.
	Unavailable int
	// Out is how many nodes are at work, not Ready or cordoned: the unavailable nodes except those that only report
	// drift. Down is how many of these are at work or not Ready, so that a cordon alone does not count.
	Out, Down int
	// Places is how many places of the budget are taken. Each unavailable node takes one place. A node that failed the
	// target takes one more place, and so does an updated node with a closed health gate.
	Places int
	// Degraded is how many nodes report a failure.
	Degraded int
}

// With returns the counts with one more node, which takes places in the budget.
func (c Counts) With(n *Node, target string, places int) Counts {
	c.Machines++
	c.Places += places
	if n.Unavailable() {
		c.Unavailable++
		idle := n.Health.Trouble == "" && n.Degraded() // It failed a config, or reports drift.
		if !n.Ready() || !idle {
			c.Out++
		}
		if !idle && (n.Health.Trouble != "" || !n.Done()) {
			c.Down++
		}
	}
	if n.Degraded() {
		c.Degraded++
	}
	if n.UpdatedTo(target) {
		c.Updated++
		if n.Ready() {
			c.Ready++
		}
	}
	return c
}

// Converged reports whether every node runs the target and accepts pods.
func (c Counts) Converged() bool {
	return c.Updated == c.Machines && c.Ready == c.Machines && c.Unavailable == 0
}
