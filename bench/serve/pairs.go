package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// way is a kind of request for a config.
type way struct {
	kind    string
	zipped  bool
	workers int
}

// ways are the rows of the first table.
func ways(workers []int) (all []way) {
	for _, kind := range []string{full, resumed} {
		for _, zipped := range []bool{false, true} {
			for _, n := range workers {
				all = append(all, way{kind, zipped, n})
			}
		}
	}
	return all
}

// rates are the figures of one server for one way, or the ratios of two servers.
type rates struct{ persecond, p50, p99, cpu, busy float64 }

// The goals of the first table.
const (
	leastRate   = 0.90
	mostLatency = 1.20
)

// row is a way with the medians of its rounds.
type row struct {
	way
	ours, static, ratio rates
	resumed             float64
}

// kinds are the names of the kinds of connections.
var kinds = map[string]string{full: "new", resumed: "new, resumed"}

// String names the way.
func (w way) String() string {
	return fmt.Sprintf("%s, %s, %d at once", kinds[w.kind], w.body(), w.workers)
}

func (w way) body() string {
	if w.zipped {
		return "gzip"
	}
	return "plain"
}

// compare measures both servers in turn, round by round, so that other load of the machine affects both alike.
func (b bench) compare(ctx context.Context, w way) (row, error) {
	var ours, static, ratio []rates
	r := row{way: w}
	for round := range b.rounds + 1 { // the first round only warms up both servers
		servers := []*server{b.ours, b.static}
		var of [2]rates
		for i := range servers {
			if round%2 == 1 {
				i = 1 - i // the servers also alternate in coming first
			}
			o, rate, err := b.round(ctx, w, servers[i])
			if err != nil {
				return r, fmt.Errorf("measuring %s, %s: %w\n%s", servers[i].name, w, err, servers[i].tail())
			}
			of[i] = rate
			if i == 0 && len(o.Latencies) > 0 {
				r.resumed = float64(o.Resumed) / float64(len(o.Latencies))
			}
		}
		if round > 0 {
			ours, static, ratio = append(ours, of[0]), append(static, of[1]), append(ratio, of[0].over(of[1]))
		}
	}
	r.ours, r.static, r.ratio = median(ours), median(static), median(ratio)
	return r, nil
}

// round sends requests to one server for a while.
func (b bench) round(ctx context.Context, w way, s *server) (outcome, rates, error) {
	before, err := s.usage()
	if err != nil {
		return outcome{}, rates{}, err
	}
	j := b.job(w, s)
	o, err := ask(ctx, b.processors, j)
	if err != nil {
		return o, rates{}, err
	}
	after, err := s.usage()
	if err != nil {
		return o, rates{}, err
	}
	if len(o.Latencies) == 0 {
		return o, rates{}, fmt.Errorf("no request ended within %s", j.For)
	}
	cpu := (after.CPU - before.CPU).Seconds()
	return o, rates{
		persecond: float64(len(o.Latencies)) / o.Wall.Seconds(),
		p50:       measure.Percentile(o.Latencies, 50).Seconds(),
		p99:       measure.Percentile(o.Latencies, 99).Seconds(),
		cpu:       cpu / float64(len(o.Latencies)),
		busy:      cpu / o.Wall.Seconds(),
	}, nil
}

func (r rates) over(o rates) rates {
	return rates{r.persecond / o.persecond, r.p50 / o.p50, r.p99 / o.p99, r.cpu / o.cpu, r.busy / o.busy}
}

// median returns the median of each figure.
func median(all []rates) rates {
	of := func(figure func(rates) float64) float64 {
		var values []float64
		for _, r := range all {
			values = append(values, figure(r))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return rates{
		of(func(r rates) float64 { return r.persecond }), of(func(r rates) float64 { return r.p50 }),
		of(func(r rates) float64 { return r.p99 }),
		of(func(r rates) float64 { return r.cpu }), of(func(r rates) float64 { return r.busy }),
	}
}

// printPairs writes the first table.
func printPairs(out io.Writer, rows []row) error {
	fmt.Fprint(out, "\nOne server beside the other: ours, static, and the median of ours / static over the rounds\n")
	g := measure.Grid{Head: []string{
		"<connections", "<body", "at once", "req/s", "static", "ratio", "p50", "static", "ratio", "p99", "static",
		"ratio",
		"CPU/req", "static", "ratio", "busy", "static",
	}}
	for _, r := range rows {
		kind := kinds[r.kind]
		if r.kind == resumed {
			kind += fmt.Sprintf(" (%.0f %%)", 100*r.resumed)
		}
		g.Add(kind, r.body(), fmt.Sprint(r.workers),
			fmt.Sprintf("%.0f", r.ours.persecond), fmt.Sprintf("%.0f", r.static.persecond),
			fmt.Sprintf("%.2f", r.ratio.persecond),
			seconds(r.ours.p50), seconds(r.static.p50), fmt.Sprintf("%.2f", r.ratio.p50),
			seconds(r.ours.p99), seconds(r.static.p99), fmt.Sprintf("%.2f", r.ratio.p99),
			seconds(r.ours.cpu), seconds(r.static.cpu), fmt.Sprintf("%.2f", r.ratio.cpu),
			fmt.Sprintf("%.0f %%", 100*r.ours.busy), fmt.Sprintf("%.0f %%", 100*r.static.busy))
	}
	return g.Print(out)
}

func seconds(s float64) string { return measure.Duration(time.Duration(s * float64(time.Second))) }
