package poolstate

// Count counts the nodes of a pool for its target, independently of time. Count treats a gate that requires a node to
// be Ready for a duration as open.
func Count(f Facts) Counts {
	var c Counts
	for _, n := range f.Care.NodeConfigs.InTermsOf(f.Nodes, f.Target) {
		m := NewMember(&n, f.Target, nil)
		c = c.With(m.Node, f.Target, m.Places())
	}
	return c
}
