package main

import (
	"cmp"
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
)

// options are the values of the flags.
type options struct {
	rounds   int
	time     time.Duration
	limit    time.Duration
	size     int
	requests int
	machines int
	nat      int
	workers  measure.Sizes
	root     string
	program  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := error(nil)
	if role := os.Getenv(roleVariable); role != "" {
		err = play(ctx, role, os.Args[1:])
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `Serving: machine-config-server beside net/http's file server with the same bytes, the same certificate and TLS, each a
process of its own; a third process asks. One shows a token and is recorded, the other one serves whoever asks. A connection has
one request, as with new machines.
`

// bench has the servers and the options of a measurement.
type bench struct {
	options
	processors
	dir          string
	offer        offered
	ours, static *server
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
	b := bench{options: o, processors: pick(), dir: dir}
	fmt.Fprint(out, preface, measure.Machine(), b.bound(), "\n")
	if err := b.prepare(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "The config has %d bytes, with gzip %d.\n", b.offer.size, b.offer.zippedSize)
	rows, err := b.pairs(ctx)
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		err = printPairs(out, rows)
	}
	if err != nil {
		return err
	}
	memory, err := b.memory(ctx)
	if err != nil {
		return err
	}
	if len(memory) > 0 {
		err = printMemory(out, memory)
	}
	if err != nil {
		return err
	}
	storms, err := b.storms(ctx)
	if err != nil {
		return err
	}
	if err := printStorms(out, storms); err != nil {
		return err
	}
	return measure.Finish(out, figures(rows, memory, storms))
}

// bound says on which processors the processes run.
func (p processors) bound() string {
	if !p.on {
		return "There is one processor for all: what the server has of it depends on those who ask.\n"
	}
	return fmt.Sprintf("Servers are bound to processor %d and take turns; who asks is bound to %d.\n", p.server, p.load)
}

// pairs measures every way.
func (b *bench) pairs(ctx context.Context) (rows []row, err error) {
	if b.rounds == 0 {
		return nil, nil
	}
	if err := b.start(ctx, "--rate=0"); err != nil {
		return nil, err
	}
	defer b.stop()
	for _, w := range ways(b.workers) {
		r, err := b.compare(ctx, w)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// memory measures both servers from their start.
func (b *bench) memory(ctx context.Context) (all []held, err error) {
	if b.requests == 0 {
		return nil, nil
	}
	if err := b.start(ctx, "--rate=0"); err != nil {
		return nil, err
	}
	defer b.stop()
	for _, s := range []*server{b.ours, b.static} {
		h, err := b.remember(ctx, s, b.requests)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// storms measures both servers, each directly after its start and without additional flags.
func (b *bench) storms(ctx context.Context) (all []weather, err error) {
	for _, kind := range []storming{
		{machines: b.machines},
		{static: true, machines: b.machines},
		{oneAddress: true, machines: b.nat},
		{oneAddress: true, ownTokens: true, machines: b.nat},
	} {
		if kind.machines == 0 {
			continue
		}
		if err := b.start(ctx); err != nil {
			return nil, err
		}
		s := b.ours
		if kind.static {
			s = b.static
		}
		w, err := b.boots(ctx, s, kind)
		b.stop()
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

func parse(args []string) (options, error) {
	o := options{workers: measure.Sizes{1, 8}}
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 9, "how often each server is measured in each way; the median counts; 0: not at "+
		"all")
	f.DurationVar(&o.time, "time", time.Second, "how long a round asks")
	f.DurationVar(&o.limit, "limit", 10*time.Minute, "how long the machines of a storm may take")
	f.IntVar(&o.size, "size", 1<<20, "bytes of the config")
	f.Var(&o.workers, "at-once", "how many ask at once, growing")
	f.IntVar(&o.requests, "requests", 2000, "how many requests memory is measured after; and ten times as many; 0: "+
		"not at all")
	f.IntVar(&o.machines, "machines", 5000, "how many machines boot at once, 0: none")
	f.IntVar(&o.nat, "behind-one", 5000, "how many machines boot at once from one address, 0: none")
	f.StringVar(&o.root, "root", ".", "folder of the checkout")
	f.StringVar(&o.program, "server", "", "the server's binary; empty: that of BUNSEN_BIN, or built from the checkout")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.size < 10_000 || min(o.rounds, o.requests, o.machines, o.nat) < 0 {
		return o, errors.New("want -size of 10000 on, and no negative numbers")
	}
	if dir := os.Getenv("BUNSEN_BIN"); dir != "" {
		o.program = cmp.Or(o.program, filepath.Join(dir, "machine-config-server"))
	}
	return o, nil
}
