package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `bunsen diff main BRANCH in a git repository of 10 pools, 8 of which inherit what worker has. Both commits are read, transpiled,
rendered, compared and printed.
`

const floor = `
No other system that is known to us answers this question. What the program stands beside is a floor: git reads the files of both
commits.
`

// options are the values of the flags.
type options struct {
	size          int
	sizes, change measure.Sizes
	limit         measure.Limit
	binary        string
}

func parse(args []string) (options, error) {
	o := options{
		sizes: measure.Sizes{50, 200, 800}, change: measure.Sizes{1, 10, 100},
		limit: measure.Limit{Runs: mostRuns},
	}
	f := flag.NewFlagSet("diff", flag.ContinueOnError)
	f.IntVar(&o.size, "size", 200, "number of documents in the repository of the first two tables")
	f.Var(&o.sizes, "sizes", "numbers of documents in the repositories of the last table, growing")
	f.Var(&o.change, "changes", "numbers of changed documents, growing")
	f.DurationVar(&o.limit.Time, "time", 700*time.Millisecond, "repeat a row until it has taken the CPU for this "+
		"long; each runs at least once")
	f.StringVar(&o.binary, "bunsen", "", "the program; empty: build it")
	return o, f.Parse(args)
}

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
	if o.binary == "" {
		bin, err := os.MkdirTemp("", "bunsen-bench-bin-") // a file system in memory may forbid to run programs
		if err != nil {
			return err
		}
		defer os.RemoveAll(bin)
		if o.binary, err = build(ctx, bin); err != nil {
			return err
		}
	}
	fmt.Fprint(out, preface, measure.Machine())
	b := &bench{dir: dir, options: o}
	var tables []*measure.Table
	for _, table := range []func(context.Context) (*measure.Table, error){b.programs, b.steps} {
		t, err := table(ctx)
		if err != nil {
			return err
		}
		if err := t.Print(out); err != nil {
			return err
		}
		tables = append(tables, t)
	}
	figures, err := b.grids(ctx, out)
	if err != nil {
		return err
	}
	fmt.Fprint(out, floor)
	return measure.Finish(out, figures, tables...)
}

// build compiles the program.
func build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "bunsen")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/bunsen-os/bunsen/cmd/bunsen").
		CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building bunsen: %w: %s", err, out)
	}
	return program, nil
}
