package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/plane"
)

// options are the values of the flags.
type options struct {
	sources, dead, shared int
	interval, time, idle  time.Duration
	pushes, hooks         int
	limit                 time.Duration
	keep                  string
	files                 plane.Files
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `%d GitSources with an interval of %s: %d have a repository each, %d share one repository with different paths, and the server of
%d accepts connections and never answers. The controller's CPU time includes everything that it does meanwhile. The git servers, the
API server and this program are not counted, but they run on the same machine.
`

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	fmt.Fprint(out, measure.Machine())
	fmt.Fprintf(out, preface, o.sources, o.interval, o.sources-o.dead-o.shared, o.shared, o.dead)
	dir, done, err := measure.Scratch()
	if err != nil {
		return err
	}
	defer done()
	figures, err := follow(ctx, o, dir, out)
	if err != nil {
		return err
	}
	return measure.Finish(out, figures)
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("sources", flag.ContinueOnError)
	f.IntVar(&o.sources, "sources", 200, "number of GitSources")
	f.IntVar(&o.dead, "dead", 20, "how many of them have a server that never answers")
	f.IntVar(&o.shared, "shared", 20, "how many of them share one repository")
	f.DurationVar(&o.interval, "interval", 30*time.Second, "interval of each GitSource")
	f.DurationVar(&o.time, "time", 2*time.Minute, "how long polls without a new commit are measured")
	f.DurationVar(&o.idle, "idle", 15*time.Second, "how long the controller has to write to no pool before that")
	f.IntVar(&o.pushes, "pushes", 20, "number of pushes that a poll finds, besides one to the shared repository")
	f.IntVar(&o.hooks, "hooks", 200, "number of pushes that a webhook announces, one after another")
	f.DurationVar(&o.limit, "limit", 5*time.Minute, "how long the program waits for a commit to be applied")
	f.StringVar(&o.keep, "log", "", "file for a copy of the controller's log; empty: none")
	o.files.Flags(f)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.sources-o.dead-o.shared < 1 || o.dead < 0 || o.shared < 0 || o.pushes < 1 || o.hooks < 1 {
		return o, fmt.Errorf("-sources %d -dead %d -shared %d -pushes %d -hooks %d: want at least one source with a "+
			"repository of its own, one push and one webhook", o.sources, o.dead, o.shared, o.pushes, o.hooks)
	}
	if o.interval < 5*time.Second {
		return o, errors.New("-interval: want at least 5s, the shortest interval of a GitSource")
	}
	return o, o.files.Complete()
}

// follow starts all processes and measures them. It returns the figures.
func follow(ctx context.Context, o options, dir string, out io.Writer) (figures []measure.Figure, err error) {
	s, err := serve(filepath.Join(dir, "served"))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	p, err := plane.Start(o.files, dir, plane.MetadataOnly)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	c, err := p.StartController(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	b, err := newBench(o, out, parts{s, p, c})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- b.watch(ctx) }()
	defer func() { stop(); err = errors.Join(err, <-watched) }()
	for _, step := range []func(context.Context) error{b.start, b.quiet, b.poll, b.pushShared, b.announce} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, c.Tail())
		}
	}
	if o.keep != "" {
		if err := c.CopyLog(o.keep); err != nil {
			return nil, err
		}
	}
	err = b.report()
	return b.figures, err
}
