package main

import (
	"context"
	"fmt"
	"io"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// mostGrowth is the maximum growth of memory for ten times as many requests. Constant memory is 1; garbage collection
// at other times causes small differences.
const mostGrowth = 1.10

// held is the memory of a server after some requests.
type held struct {
	name             string
	start, few, many measure.Usage
	requests         int
}

// remember sends n requests to a server after its start, and then ten times as many, with new connections.
func (b bench) remember(ctx context.Context, s *server, n int) (h held, err error) {
	h = held{name: s.name, requests: n}
	if h.start, err = s.usage(); err != nil {
		return h, err
	}
	for _, step := range []struct {
		requests int
		into     *measure.Usage
	}{{n, &h.few}, {10 * n, &h.many}} {
		j := b.job(way{full, false, b.workers[len(b.workers)-1]}, s)
		j.Requests, j.For = step.requests, b.limit
		if _, err := ask(ctx, b.processors, j); err != nil {
			return h, fmt.Errorf("measuring the memory of %s: %w\n%s", s.name, err, s.tail())
		}
		if *step.into, err = s.usage(); err != nil {
			return h, err
		}
	}
	return h, nil
}

func (h held) growth() float64 { return float64(h.many.Peak) / float64(h.few.Peak) }

func printMemory(out io.Writer, all []held) error {
	fmt.Fprint(out, "\nMemory of a server that was just started: the most that it held, and what it holds "+
		"afterwards (MB)\n")
	g := measure.Grid{Head: []string{
		"<server", "at start", "requests", "peak", "held", "requests", "peak", "held",
		"growth of the peak",
	}}
	for _, h := range all {
		g.Add(h.name, megabytes(h.start.Held), fmt.Sprint(h.requests), megabytes(h.few.Peak), megabytes(h.few.Held),
			fmt.Sprint(10*h.requests), megabytes(h.many.Peak), megabytes(h.many.Held), fmt.Sprintf("%.2f", h.growth()))
	}
	return g.Print(out)
}

func megabytes(n uint64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
