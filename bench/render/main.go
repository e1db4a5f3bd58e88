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

// explained explains the peer.
const explained = `
The original's merge is that of the machine-config-operator, written from its rules: it checks each config, merges one after
another, and names the result by its hash. It keeps nothing between two runs, so that a change of one fragment, or none, costs it
all again.
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
	fmt.Fprint(out, explained)
	return measure.Finish(out, nil, tables...)
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
}

var shapes = []shape{
	{
		name: "large", explained: "each fragment 3–5 files of 1–4 KiB and a unit, at most 100 fragments a pool",
		documents: corpus.Large, most: 100,
	},
	{
		name: "large, one pool", explained: "the same in one pool; beyond 100 it is refused for its size when it " +
			"is done",
		documents: corpus.Large, refused: true,
	},
	{
		name: "small", explained: "each fragment 3–5 files of 50–100 bytes and a unit, all in one pool",
		documents: corpus.Small,
	},
}
