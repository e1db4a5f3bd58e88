package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	sizes []int
	time  time.Duration
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bunsen-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := bench{dir: dir, time: o.time}
	// The first build in a process loads kustomize's schema, once; it belongs to no row.
	if _, err := b.measure(ctx, corpus{fragments: 1, perPool: 1, shape: shapes[0]}); err != nil {
		return err
	}
	fmt.Fprint(out, preface)
	for _, s := range shapes {
		var rows []row
		for _, n := range o.sizes {
			more, err := b.measure(ctx, corpus{fragments: n, perPool: s.perPool(n), shape: s})
			if err != nil {
				return fmt.Errorf("measuring %d fragments, %s: %w", n, s.name, err)
			}
			rows = append(rows, more...)
		}
		printTable(out, s, rows)
	}
	fmt.Fprint(out, peers)
	return nil
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("commit", flag.ContinueOnError)
	sizes := f.String("sizes", "10,100,1000", "numbers of fragments, growing")
	f.DurationVar(&o.time, "time", 3*time.Second, "repeat a row for about this long; each runs at least once")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for _, text := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("reading --sizes: %q is no number of fragments", text)
		}
		o.sizes = append(o.sizes, n)
	}
	return o, nil
}
