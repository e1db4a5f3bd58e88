package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// weather is the result of a storm.
type weather struct {
	server, from string
	machines     int
	outcome
	used measure.Usage
	cpu  time.Duration
}

// boots runs a storm of booting machines on a server.
func (b bench) boots(ctx context.Context, s *server, oneAddress bool) (weather, error) {
	w := weather{server: s.name, from: "one each", machines: b.machines}
	if oneAddress {
		w.from = "one for all"
	}
	before, err := s.usage()
	if err != nil {
		return w, err
	}
	j := b.job(way{storm, false, b.machines}, s)
	j.For, j.OneAddress, j.Requests = b.limit, oneAddress, 0
	if w.outcome, err = ask(ctx, b.processors, j); err != nil {
		return w, fmt.Errorf("storming %s: %w\n%s", s.name, err, s.tail())
	}
	w.used, err = s.usage()
	w.cpu = w.used.CPU - before.CPU
	return w, err
}

func printStorms(out io.Writer, all []weather) error {
	fmt.Fprintf(out, "\nA boot storm: machines that are switched on within %s, each with a handshake and an address "+
		"of its own, in the way of\nIgnition; each looks whether it has the whole config\n", within)
	g := measure.Grid{Head: []string{
		"<server", "<addresses", "machines", "<without it", "asked again",
		"the last one after", "p50", "p99", "CPU", "CPU each", "peak MB", "<goal", "<met",
	}}
	for _, w := range all {
		met, failed := "yes", fmt.Sprint(w.Failures)
		if w.Failures > 0 {
			met = "NO"
			failed += ": " + w.Failed[0]
		}
		goal := "all have it"
		if w.server == staticName {
			goal, met = "–", "–"
		}
		g.Add(w.server, w.from, fmt.Sprint(w.machines), failed, fmt.Sprint(w.Retries), measure.Duration(w.Wall),
			measure.Duration(measure.Percentile(w.Latencies, 50)),
			measure.Duration(measure.Percentile(w.Latencies, 99)),
			measure.Duration(w.cpu), measure.Duration(w.cpu/time.Duration(w.machines)), megabytes(w.used.Peak), goal,
			met)
	}
	return g.Print(out)
}
