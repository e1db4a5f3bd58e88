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
	nodes, readers, users, events int
	// pause is the time between two events.
	pause time.Duration
	// limit is how long the program waits for one page or one event.
	limit time.Duration
	// bunsen is the binary of the console.
	bunsen string
	keep   string
	files  plane.Files
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `A pool of %d nodes in the middle of a rollout, %d open pages of one user, and as many of %d users. The console, the API server
and the browsers of this program run on the same machine. Times are elapsed times.
`

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	fmt.Fprint(out, measure.Machine())
	fmt.Fprintf(out, preface, o.nodes, o.readers, o.users)
	dir, done, err := measure.Scratch()
	if err != nil {
		return err
	}
	defer done()
	figures, err := serve(ctx, o, dir, out)
	if err != nil {
		return err
	}
	return measure.Finish(out, figures)
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("console", flag.ContinueOnError)
	f.IntVar(&o.nodes, "nodes", 5000, "number of nodes of the pool")
	f.IntVar(&o.readers, "readers", 50, "number of open pages of one user")
	f.IntVar(&o.users, "users", 10, "number of users who have these pages together")
	f.IntVar(&o.events, "events", 20, "number of events in each measurement")
	f.DurationVar(&o.pause, "pause", 3*time.Second, "time between two events")
	f.DurationVar(&o.limit, "limit", 2*time.Minute, "how long the program waits for a page or an event")
	f.StringVar(&o.bunsen, "bunsen", "", "the binary of bunsen; empty: that of BUNSEN_BIN, or built from the checkout")
	f.StringVar(&o.keep, "pages", "", "folder for copies of the pages; empty: none")
	o.files.Flags(f)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.nodes < 10 || o.readers < 1 || o.users < 1 || o.events < 1 {
		return o, fmt.Errorf("-nodes %d -readers %d -users %d -events %d: want at least 10 nodes, one reader, one "+
			"user and one event", o.nodes, o.readers, o.users, o.events)
	}
	if dir := os.Getenv("BUNSEN_BIN"); o.bunsen == "" && dir != "" {
		o.bunsen = filepath.Join(dir, "bunsen")
	}
	return o, o.files.Complete()
}

// serve starts all processes and measures them. It returns the figures.
func serve(ctx context.Context, o options, dir string, out io.Writer) (figures []measure.Figure, err error) {
	p, err := plane.Start(o.files, dir, plane.MetadataOnly)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	b, err := newBench(o, out, p.Admin)
	if err != nil {
		return nil, err
	}
	if err := b.fill(ctx); err != nil {
		return nil, err
	}
	if b.child, err = startConsole(ctx, o, dir, p.Admin); err != nil {
		return nil, err
	}
	defer b.child.stop()
	for _, step := range []func(context.Context) error{b.pages, b.oneReader, b.manyReaders, b.slowReader, b.manyUsers} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, b.child.tail())
		}
	}
	return b.figures, nil
}
