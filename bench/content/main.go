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
	// size is the size of the file in MiB.
	size  int
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

const preface = `A file of %d MiB in a repository, on a real API server. The controller is a process of its own: it fetches the commit, stores
the file as a Content with ContentChunks, and renders the pool. Peak is the maximum of the controller's resident memory during
the step. The memory of the API server and the size of etcd are those at the end of the step.
`

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("content", flag.ContinueOnError)
	f.IntVar(&o.size, "size", 100, "size of the file in MiB")
	f.DurationVar(&o.limit, "limit", 10*time.Minute, "how long one commit may take")
	o.files.Flags(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.size < 2 || o.size > 128 {
		return fmt.Errorf("-size %d: want 2 to 128; a smaller file stays in the config, and a source takes no "+
			"larger one", o.size)
	}
	if err := o.files.Complete(); err != nil {
		return err
	}
	fmt.Fprintf(out, preface, o.size)
	fmt.Fprint(out, measure.Machine())
	steps, err := follow(ctx, o)
	if err != nil {
		return err
	}
	return report(out, o, steps)
}

// mostMemory is the goal for the memory that the file adds to the controller's peak, in MiB: some copies of the file
// while the controller reads the commit, and garbage. The chunks need only parts of the file in memory.
func mostMemory(size int) int { return 64 + 6*size }

// report writes the table. The first step is the floor.
func report(out io.Writer, o options, steps []step) error {
	fmt.Fprintln(out, "\nFrom a commit until the pool has its config")
	g := measure.Grid{Head: []string{
		"<", "rendered", "CPU", "peak MiB", "added", "API server MiB", "etcd MiB", "<goal",
		"<met",
	}}
	for _, s := range steps {
		added, met := mib(s.Peak)-mib(steps[0].Peak), "yes"
		if added > mostMemory(o.size) {
			met = "NO"
		}
		g.Add(s.what, measure.Duration(s.rendered), measure.Duration(s.CPU), fmt.Sprint(mib(s.Peak)), fmt.Sprint(added),
			fmt.Sprint(s.server>>20), fmt.Sprint(s.etcd>>20), fmt.Sprintf("adds ≤ %d", mostMemory(o.size)), met)
	}
	return g.Print(out)
}

func mib(bytes uint64) int { return int(bytes >> 20) }
