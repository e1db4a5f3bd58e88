package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// mostWrites is the maximum number of a rollout's writes to a node, without its drain.
const mostWrites = 2

// mostGrowth is how many times as much CPU time a node may cost as one of the smallest pool.
const mostGrowth = 1.2

// report writes the tables about whole rollouts.
func report(out io.Writer, nodes int, results []result) error {
	fmt.Fprintf(out, "\nThe controller: one rollout to %d nodes; what it asks of the API server is counted there\n",
		nodes)
	g := measure.Grid{Head: []string{
		"<", "wall", "CPU", "CPU a node", "peak MB", "looks", "wall a look",
		"requests a node", "writes a node", "most", "<goal", "<met", "for drains",
	}}
	for _, r := range results {
		total := 0
		for _, n := range r.counts {
			total += n
		}
		most, mean, drain := r.most(nodes)
		met := "yes"
		if most > mostWrites {
			met = "NO"
		}
		g.Add(r.what, measure.Duration(r.wall), measure.Duration(r.cpu), measure.Duration(r.each()),
			fmt.Sprintf("%.0f", float64(r.peak)/1e6),
			fmt.Sprint(r.syncs), measure.Duration(r.took/time.Duration(max(r.syncs, 1))), each(total, nodes),
			fmt.Sprintf("%.2f", mean), fmt.Sprint(most), fmt.Sprintf("≤ %d a node", mostWrites), met,
			fmt.Sprintf("%.2f", drain))
	}
	if err := g.Print(out); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nRequests of the controller, for each node\n")
	g = measure.Grid{Head: []string{"<"}}
	kinds := map[string]bool{}
	for _, r := range results {
		g.Head = append(g.Head, r.what)
		for kind := range r.counts {
			kinds[kind] = true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		cells := []string{kind}
		for _, r := range results {
			cells = append(cells, each(r.counts[kind], nodes))
		}
		g.Add(cells...)
	}
	return g.Print(out)
}

// reportGrowth writes what a node costs in pools of several sizes.
func reportGrowth(out io.Writer, all []result) error {
	fmt.Fprintf(out, "\nThe CPU time of the controller for a node, by the size of its pool\n")
	g := measure.Grid{Head: []string{"<", "nodes", "CPU a node", "of the smallest", "<goal", "<met"}}
	for _, r := range all {
		least, goal := smallestLike(all, r), [3]string{"–"}
		if r.nodes > least.nodes {
			growth := float64(r.each()) / float64(least.each())
			goal = [3]string{fmt.Sprintf("%.2fx", growth), fmt.Sprintf("≤ %.1fx", mostGrowth), "yes"}
			if growth > mostGrowth {
				goal[2] = "NO"
			}
		}
		g.Add(r.what, fmt.Sprint(r.nodes), measure.Duration(r.each()), goal[0], goal[1], goal[2])
	}
	return g.Print(out)
}

// smallestLike returns the same kind of rollout in the smallest pool, which is measured first.
func smallestLike(all []result, r result) result {
	return all[slices.IndexFunc(all, func(first result) bool { return first.what == r.what })]
}

func each(n, nodes int) string { return fmt.Sprintf("%.3f", float64(n)/float64(nodes)) }

// missed lists the rollouts with too many writes to a node, and those in which a node costs more than in a small pool.
func missed(all []result) (out string) {
	for _, r := range all {
		if least := smallestLike(all, r).each(); float64(r.each()) > mostGrowth*float64(least) {
			out += fmt.Sprintf("  a rollout to %d nodes, %s: %s a node, and %s in the smallest pool; goal ≤ %.1fx\n",
				r.nodes, r.what, measure.Duration(r.each()), measure.Duration(least), mostGrowth)
		}
		if most, _, _ := r.most(1); most > mostWrites {
			out += fmt.Sprintf("  a rollout, %s: a node was written to %d times, drains apart; goal ≤ %d\n", r.what,
				most, mostWrites)
		}
	}
	return out
}
