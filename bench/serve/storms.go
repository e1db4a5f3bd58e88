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
		if f.server == oursName && f.from != w.from && f.machines == w.machines && w.server == oursName {
			return f
		}
	}
	return nil
}

// missed returns the goals that a storm misses, or "".
func (w weather) missed(all []weather) (what string) {
	if w.Failures > 0 {
		what = fmt.Sprintf("%d machines have no config: %v", w.Failures, w.Failed)
	}
	floor := w.floor(all)
	if w.from != "one for all" || floor == nil {
		return what
	}
	if ratio := float64(w.Wall) / float64(floor.Wall); ratio > longestStorm {
		what += fmt.Sprintf(" it takes %.2f times as long as from many addresses, goal ≤ %.1f;", ratio, longestStorm)
	}
	if each := float64(w.Retries) / float64(w.machines); each > mostRetries {
		what += fmt.Sprintf(" %.2f retries of a machine, goal ≤ %.0f;", each, mostRetries)
	}
	return what
}

func printStorms(out io.Writer, all []weather) error {
	fmt.Fprintf(out, "\nA boot storm: machines that are switched on within %s, each with a handshake and an address "+
		"of its own, in the way of\nIgnition; each looks whether it has the whole config\n", within)
	g := measure.Grid{Head: []string{
		"<server", "<addresses", "<tokens", "machines", "<without it", "asked again",
		"the last one after", "p50", "p99", "CPU", "CPU each", "peak MB", "<goal", "<met",
	}}
	for _, w := range all {
		met, failed := "yes", fmt.Sprint(w.Failures)
		if w.missed(all) != "" {
			met = "NO"
		}
		if w.Failures > 0 {
			failed += ": " + w.Failed[0]
		}
		goal := "all have it"
		if w.from == "one for all" && w.floor(all) != nil {
			goal += fmt.Sprintf(", ≤ %.1f times as late, ≤ %.0f retry each", longestStorm, mostRetries)
		}
		if w.server == staticName {
			goal, met = "–", "–"
		}
		g.Add(w.server, w.from, w.tokens, fmt.Sprint(w.machines), failed, fmt.Sprint(w.Retries),
			measure.Duration(w.Wall),
			measure.Duration(measure.Percentile(w.Latencies, 50)),
			measure.Duration(measure.Percentile(w.Latencies, 99)),
			measure.Duration(w.cpu), measure.Duration(w.cpu/time.Duration(w.machines)), megabytes(w.used.Peak), goal,
			met)
	}
	return g.Print(out)
}
