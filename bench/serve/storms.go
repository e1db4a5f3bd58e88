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
	server, from, tokens string
	machines             int
	outcome
	used measure.Usage
	cpu  time.Duration
}

// The goals of a storm behind one address, beside that of many addresses: the time, and retries of a machine.
const (
	longestStorm = 1.3
	mostRetries  = 1.0
)

// storming is a kind of storm.
type storming struct {
	static, oneAddress, ownTokens bool
	machines                      int
}

// boots runs a storm of booting machines on a server.
func (b bench) boots(ctx context.Context, s *server, kind storming) (weather, error) {
	w := weather{server: s.name, from: "one each", tokens: "one for all", machines: kind.machines}
	if kind.oneAddress {
		w.from = "one for all"
	}
	if kind.ownTokens {
		w.tokens = "one each"
	}
	if kind.static {
		w.tokens = "–"
	}
	before, err := s.usage()
	if err != nil {
		return w, err
	}
	j := b.job(way{storm, false, kind.machines}, s)
	j.For, j.OneAddress, j.Requests = b.limit, kind.oneAddress, 0
	if kind.ownTokens {
		j.Tokens = b.offer.tokens
	}
	if w.outcome, err = ask(ctx, b.processors, j); err != nil {
		return w, fmt.Errorf("storming %s: %w\n%s", s.name, err, s.tail())
	}
	w.used, err = s.usage()
	w.cpu = w.used.CPU - before.CPU
	return w, err
}

// floor is the storm of as many machines with an address each, for one of one address; nil if there is none.
func (w weather) floor(all []weather) *weather {
	for i := range all {
		f := &all[i]
		if w.from == "one for all" && f.server == oursName && f.from == "one each" && f.machines == w.machines {
			return f
		}
	}
	return nil
}

func printStorms(out io.Writer, all []weather) error {
	fmt.Fprintf(out, "\nA boot storm: machines that are switched on within %s, each with a handshake and an address "+
		"of its own, in the way of\nIgnition; each looks whether it has the whole config\n", within)
	g := measure.Grid{Head: []string{
		"<server", "<addresses", "<tokens", "machines", "<without it", "asked again",
		"the last one after", "p50", "p99", "CPU", "CPU each", "peak MB",
	}}
	for _, w := range all {
		failed := fmt.Sprint(w.Failures)
		if w.Failures > 0 {
			failed += ": " + w.Failed[0]
		}
		g.Add(w.server, w.from, w.tokens, fmt.Sprint(w.machines), failed, fmt.Sprint(w.Retries),
			measure.Duration(w.Wall),
			measure.Duration(measure.Percentile(w.Latencies, 50)),
			measure.Duration(measure.Percentile(w.Latencies, 99)),
			measure.Duration(w.cpu), measure.Duration(w.cpu/time.Duration(w.machines)), megabytes(w.used.Peak))
	}
	return g.Print(out)
}
