package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/plane"
)

// options are the values of the flags.
type options struct {
	sizes   measure.Sizes
	content int
	limit   time.Duration
	files   plane.Files
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `A pool whose nodes have configs of their own, on a real API server: one document with a network file and a host name, and
a table with a row for each node. The controller is a process of its own; the API server, git and the simulated daemons are
not counted. A tenth of the nodes may be at work at a time. A daemon asks for its drain, reboots at once, asks for the end of
its drain, and is done.
`

func run(ctx context.Context, args []string, out io.Writer) error {
	o := options{sizes: measure.Sizes{500, 1000, 2000}}
	f := flag.NewFlagSet("nodes", flag.ContinueOnError)
	f.Var(&o.sizes, "sizes", "numbers of nodes, growing")
	f.IntVar(&o.content, "content", 16<<10, "bytes of the files that all nodes have in common")
	f.DurationVar(&o.limit, "limit", 15*time.Minute, "how long one change may take")
	o.files.Flags(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := o.files.Complete(); err != nil {
		return err
	}
	fmt.Fprint(out, preface, measure.Machine())
	var results []result
	for _, size := range o.sizes {
		r, err := measureSize(ctx, o, size)
		if err != nil {
			return fmt.Errorf("measuring %d nodes: %w", size, err)
		}
		results = append(results, r)
	}
	return measure.Finish(out, figures(results))
}
