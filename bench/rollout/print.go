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

// report writes the tables about whole rollouts.
func report(out io.Writer, o options, results []result) error {
	fmt.Fprintf(out, "\nThe controller: one rollout to %d nodes; what it asks of the API server is counted there\n",
		o.nodes)
	g := measure.Grid{Head: []string{
		"<", "wall", "CPU", "CPU a node", "peak MB", "looks", "wall a look",
		"requests a node", "writes a node", "most", "<goal", "<met", "for drains",
	}}
	for _, r := range results {
		total := 0
		for _, n := range r.counts {
			total += n
		}
		most, mean, drain := r.most(o.nodes)
		met := "yes"
		if most > mostWrites {
			met = "NO"
		}
		g.Add(r.what, measure.Duration(r.wall), measure.Duration(r.cpu), measure.Duration(r.cpu/time.Duration(o.nodes)),
			fmt.Sprintf("%.0f", float64(r.peak)/1e6),
			fmt.Sprint(r.syncs), measure.Duration(r.took/time.Duration(max(r.syncs, 1))), each(total, o.nodes),
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
			cells = append(cells, each(r.counts[kind], o.nodes))
		}
		g.Add(cells...)
	}
	return g.Print(out)
}

func each(n, nodes int) string { return fmt.Sprintf("%.3f", float64(n)/float64(nodes)) }

// missed lists the rollouts with too many writes to a node.
func missed(results []result) (out string) {
	for _, r := range results {
		if most, _, _ := r.most(1); most > mostWrites {
			out += fmt.Sprintf("  a rollout, %s: a node was written to %d times, drains apart; goal ≤ %d\n", r.what,
				most, mostWrites)
		}
	}
	return out
}
