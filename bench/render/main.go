package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `Rendering: MachineConfigs as a cluster stores them are ordered, read, validated, merged, written and named.
`

// peer explains the column of that name.
const peer = `
mco is the machine-config-operator (snapshot 7ff337a4, generateRenderedMachineConfig) with fragments of 3–5 files of 1–4 KiB. It
keeps nothing between two runs, so that a change of one fragment, or none, costs it all again. Its merge alone grows with
exponent 1.9 at 1,000 fragments. Its figures are of one pool, which no cluster could store beyond about 100 such fragments.
`

func run(args []string, out io.Writer) error {
	sizes := measure.Sizes{10, 100, 1000}
	limit := measure.Limit{Runs: 5}
	f := flag.NewFlagSet("render", flag.ContinueOnError)
	f.Var(&sizes, "sizes", "numbers of fragments, growing")
	f.DurationVar(&limit.Time, "time", 700*time.Millisecond, "repeat a row until it has taken the CPU for this long; "+
		"each runs at least once")
	if err := f.Parse(args); err != nil {
		return err
	}
	fmt.Fprint(out, preface, measure.Machine())
	var tables []*measure.Table
	for _, s := range shapes {
		t := &measure.Table{Title: s.name, Explained: s.explained, Of: "fragments"}
		tables = append(tables, t)
		for _, n := range sizes {
			if err := s.measure(t, limit, n); err != nil {
				return fmt.Errorf("measuring %d fragments, %s: %w", n, s.name, err)
			}
		}
		if err := t.Print(out); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(out, peer, measure.Quoted, measure.Whether("", tables...))
	return err
}

// shape is a kind of fragments with their distribution to pools.
type shape struct {
	name, explained string
	documents       corpus.Documents
	// most is how many fragments a pool has; 0 means all of them.
	most int
	// refused: a config of many such fragments is too large for a cluster. The renderer detects this only after it
	// created the config, so the cost is complete. It caches nothing, so a repetition has no cost of its own.
	refused bool
	// quoted are the other program's figures by number of fragments.
	quoted map[int]time.Duration
}

// ofOnePool has the other program's figures for large fragments, all in one pool.
var ofOnePool = map[int]time.Duration{
	10: 21700 * time.Microsecond, 30: 76800 * time.Microsecond, 100: 360 * time.Millisecond,
	300: 1938 * time.Millisecond, 1000: 15940 * time.Millisecond,
}

var shapes = []shape{
	{
		name: "large", explained: "each fragment 3–5 files of 1–4 KiB and a unit, at most 100 fragments a pool",
		documents: corpus.Large, most: 100, quoted: ofOnePool,
	},
	{
		name: "large, one pool", explained: "the same in one pool; beyond 100 it is refused for its size when it " +
			"is done",
		documents: corpus.Large, refused: true, quoted: ofOnePool,
	},
	{
		name: "small", explained: "each fragment 3–5 files of 50–100 bytes and a unit, all in one pool",
		documents: corpus.Small,
	},
}
