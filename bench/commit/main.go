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

// peers has figures of other programs from other sources; this program does not measure them.
const peers = `
What others take for parts of this way; fragments of 4 files of 1–4 KiB:
  machine-config-operator*, rendering alone       100 fragments: 360 ms, 259 MB allocated; 1000: 15.9 s, 17.3 GB; growth 1.65
  … after one of them changed                     the same again: nothing is kept
  Butane v0.29.0*, transpiling alone              1000 documents: 2.3 s as a library; its command, once for each document: 8.4 s
  kustomize v5.8.1*, one patch each               1000 documents: 1.43 s; growth 1.36, and 1.9 from there on
  Flux source-controller*, clone of a new commit  10,000 files: 1.27 s
  all of them in a row, one file changed          1000 documents: 21 s
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
	fmt.Fprint(out, peers)
	missed := ""
	if o.objects > 0 {
		if missed, err = onCluster(ctx, o.files, o.objects, out); err != nil {
			return err
		}
	}
	_, err = fmt.Fprint(out, measure.Quoted, measure.Whether(missed, tables...))
	return err
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
