package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/plane"
)

// options are the values of the flags.
type options struct {
	sizes   measure.Sizes
	time    time.Duration
	objects int
	files   plane.Files
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `From a commit to rendered configs, in one process: list refs, fetch the commit, write its files (fetch), transpile, render.
`

// explained explains the peer.
const explained = `
Beside it, git fetches the commit into a working tree of its own, the Butane library translates each document and the merge of the
machine-config-operator, written from its rules, makes the configs. After a change, git fetches what is new; the others keep nothing.
Neither knows patches, so that the last repository has no peer.
`

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, done, err := measure.Scratch()
	if err != nil {
		return err
	}
	defer done()
	b := bench{dir: dir, limit: measure.Limit{Runs: mostRuns, Time: o.time}}
	// The first build in a process loads kustomize's schema once. That cost belongs to no row.
	if _, err := b.measure(ctx, shapes[0].corpus(1)); err != nil {
		return err
	}
	fmt.Fprint(out, preface, measure.Machine())
	var tables []*measure.Table
	for _, s := range shapes {
		t := &measure.Table{
			Title: s.name, Explained: s.explained, Of: "fragments",
			Parts: []string{"fetch", "transpile", "render"},
		}
		tables = append(tables, t)
		for _, n := range o.sizes {
			rows, err := b.measure(ctx, s.corpus(n))
			if err != nil {
				return fmt.Errorf("measuring %d fragments, %s: %w", n, s.name, err)
			}
			t.Rows = append(t.Rows, rows...)
		}
		if err := t.Print(out); err != nil {
			return err
		}
	}
	fmt.Fprint(out, explained)
	var figures []measure.Figure
	if o.objects > 0 {
		if figures, err = onCluster(ctx, o.files, o.objects, out); err != nil {
			return err
		}
	}
	return measure.Finish(out, figures, tables...)
}

func parse(args []string) (options, error) {
	o := options{sizes: measure.Sizes{10, 100, 1000}}
	f := flag.NewFlagSet("commit", flag.ContinueOnError)
	f.Var(&o.sizes, "sizes", "numbers of fragments, growing")
	f.DurationVar(&o.time, "time", time.Second, "repeat a row until it has taken the CPU for this long; each runs at "+
		"least once")
	f.IntVar(&o.objects, "objects", bigSize, "documents of a commit that is applied to a real API server; 0 for none")
	o.files.Flags(f)
	if err := f.Parse(args); err != nil || o.objects == 0 {
		return o, err
	}
	return o, o.files.Complete()
}
