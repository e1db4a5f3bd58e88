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
		"requests a node", "writes a node", "most", "for drains",
	}}
	for _, r := range results {
		total := 0
		for _, n := range r.counts {
			total += n
		}
		most, mean, drain := r.most(nodes)
		g.Add(r.what, measure.Duration(r.wall), measure.Duration(r.cpu), measure.Duration(r.each()),
			fmt.Sprintf("%.0f", float64(r.peak)/1e6),
			fmt.Sprint(r.syncs), measure.Duration(r.took/time.Duration(max(r.syncs, 1))), each(total, nodes),
			fmt.Sprintf("%.2f", mean), fmt.Sprint(most), fmt.Sprintf("%.2f", drain))
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

// figuresOf returns the figures of rollouts in pools of several sizes, beside those of the smallest pool.
func figuresOf(all []result) (figures []measure.Figure) {
	for _, r := range all {
		least := smallestLike(all, r)
		at := fmt.Sprintf("at %d nodes", least.nodes)
		name := func(what string) string { return "a rollout, " + r.what + ": " + what }
		most, _, _ := r.most(r.nodes)
		each := measure.Figure{
			What: name("CPU time for each node"), Size: r.nodes, Of: "nodes", Now: measure.Time(r.each()),
		}
		peak := measure.Figure{
			What: name("peak memory"), Size: r.nodes, Of: "nodes", Now: measure.Bytes(r.peak),
		}
		if least.nodes < r.nodes {
			each.Peers = []measure.Peer{measure.Took(at, least.each())}
			each.Goals = []measure.Bound{measure.RatioAtMost(mostGrowth)}
			peak.Peers = []measure.Peer{{Name: at, Now: measure.Bytes(least.peak)}}
		}
		figures = append(figures, each, measure.Figure{
			What: name("CPU time"), Size: r.nodes, Of: "nodes", Now: measure.Time(r.cpu),
		}, peak, measure.Figure{
			What: name("most writes to a node, drains apart"), Size: r.nodes, Of: "nodes",
			Now:   measure.Number(float64(most), "writes"),
			Goals: []measure.Bound{measure.AtMost(measure.Number(mostWrites, "writes"))},
		})
	}
	measure.Grow(figures)
	return figures
}

// smallestLike returns the same kind of rollout in the smallest pool, which is measured first.
func smallestLike(all []result, r result) result {
	return all[slices.IndexFunc(all, func(first result) bool { return first.what == r.what })]
}

func each(n, nodes int) string { return fmt.Sprintf("%.3f", float64(n)/float64(nodes)) }
