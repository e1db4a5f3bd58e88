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
	nodes measure.Sizes
	sizes measure.Sizes
	time  time.Duration
	limit time.Duration
	files plane.Files
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `A rollout to all nodes of a pool, on a real API server: the controller is a process of its own, the nodes' daemons are
simulated in one other process, which is not counted, nor is the API server. A daemon asks for its drain, reboots (not
Ready, Ready), asks for the end of its drain, is done; there are no pods to evict. A tenth of the nodes may be at work at
a time. With a policy, 1 % are canaries, 10 % and 50 % are batches, each node has to be Ready for a second, and a zone
has a limit of its own.
`

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	fmt.Fprint(out, preface, measure.Machine())
	decisions, err := decide(o)
	if err != nil {
		return err
	}
	var all []result
	for _, nodes := range o.nodes {
		results, err := measureSize(ctx, o, nodes)
		if err != nil {
			return fmt.Errorf("rolling out to %d nodes: %w", nodes, err)
		}
		if err := report(out, nodes, results); err != nil {
			return err
		}
		all = append(all, results...)
	}
	if err := decisions.Print(out); err != nil {
		return err
	}
	return measure.Finish(out, figuresOf(all), decisions)
}

// measureSize rolls out to a number of nodes, on a control plane of its own.
func measureSize(ctx context.Context, o options, nodes int) ([]result, error) {
	dir, done, err := measure.Scratch()
	if err != nil {
		return nil, err
	}
	defer done()
	return rollOut(ctx, o, nodes, dir)
}

func parse(args []string) (options, error) {
	o := options{nodes: measure.Sizes{500, 5000}, sizes: measure.Sizes{1000, 5000, 10000}}
	f := flag.NewFlagSet("rollout", flag.ContinueOnError)
	f.Var(&o.nodes, "nodes", "numbers of nodes to roll out to, growing")
	f.Var(&o.sizes, "sizes", "numbers of nodes to decide on, growing")
	f.DurationVar(&o.time, "time", time.Second, "repeat a decision until it has taken the CPU for this long")
	f.DurationVar(&o.limit, "limit", 30*time.Minute, "how long one rollout may take")
	o.files.Flags(f)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.nodes[0] < 10 {
		return o, fmt.Errorf("-nodes %d: want at least 10, so that a tenth of them is one", o.nodes[0])
	}
	return o, o.files.Complete()
}
