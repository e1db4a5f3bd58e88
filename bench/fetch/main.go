package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// options are the values of the flags.
type options struct {
	files, commits, refs, runs int
}

func main() {
	ctx := context.Background()
	var err error
	if len(os.Args) > 1 && os.Args[1] == clientCommand {
		err = runClient(ctx, os.Args[2:], os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("fetch", flag.ContinueOnError)
	f.IntVar(&o.files, "files", 10_000, "number of files")
	f.IntVar(&o.commits, "commits", 10_000, "number of commits")
	f.IntVar(&o.refs, "refs", 60_000, "number of refs of the repository with many of them")
	f.IntVar(&o.runs, "runs", 5, "runs of each row; the median counts")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, done, err := measure.Scratch()
	if err != nil {
		return err
	}
	defer done()
	s, err := serve(filepath.Join(dir, "served"))
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(out, "%s%d files, %d commits, medians of %d runs. RSS of git is that of its largest process.\n\n",
		measure.Machine(), o.files, o.commits, o.runs)
	b := bench{ctx: ctx, dir: dir, server: s, o: o, out: out}
	for _, step := range []func() error{b.pairs, b.manyRefs, b.hostile} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// bench runs the rows against a server.
type bench struct {
	ctx    context.Context
	dir    string
	server *server
	o      options
	out    io.Writer
	n      int
}

// fresh returns the path of a directory that does not exist yet.
func (b *bench) fresh(name string) string {
	b.n++
	return filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, b.n))
}

// pair is one row: the same task by git and by Bunsen.
type pair struct {
	name      string
	git, ours func() (measure.Sample, error)
	goal      float64 // of the ratio of CPU times
	bytes     int64   // goal of the received bytes; 0: none
}

func (b *bench) pairs() error {
	w, err := newWorld(b)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%-36s %10s %10s %6s %8s %8s %10s %10s\n", "", "git CPU", "our CPU", "ratio", "git MiB",
		"our MiB", "git bytes", "our bytes")
	for _, p := range w.rows() {
		var gitBytes, ourBytes int64
		counted := func(once func() (measure.Sample, error), into *int64) measure.Once {
			return func(int) (measure.Sample, error) {
				b.server.bytes.Store(0)
				s, err := once()
				*into = b.server.bytes.Load()
				return s, err
			}
		}
		limit := measure.Limit{Runs: b.o.runs, Time: time.Hour}
		both, err := limit.Together(counted(p.git, &gitBytes), counted(p.ours, &ourBytes))
		if err != nil {
			return fmt.Errorf("measuring %s: %w", p.name, err)
		}
		ratio := float64(both[1].CPU) / float64(both[0].CPU)
		verdict := "met"
		if ratio > p.goal || p.bytes > 0 && ourBytes > p.bytes {
			verdict = "MISSED"
		}
		goal := fmt.Sprintf("≤ %.1f", p.goal)
		if p.bytes > 0 {
			goal += fmt.Sprintf(", ≤ %d bytes", p.bytes)
		}
		fmt.Fprintf(b.out, "%-36s %10s %10s %6.2f %8d %8d %10d %10d  %s %s\n", p.name, measure.Duration(both[0].CPU),
			measure.Duration(both[1].CPU), ratio,
			both[0].Mem>>20, both[1].Mem>>20, gitBytes, ourBytes, goal, verdict)
	}
	return nil
}

func (b *bench) manyRefs() error {
	if err := makeManyRefs(b.ctx, b.server.path("refs.git"), b.o.refs); err != nil {
		return err
	}
	b.server.bytes.Store(0)
	s, err := b.client("list", b.server.url("refs.git"), "-polls", "10")
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "\n%d refs: %d bytes a poll (goal ≤ 4096), %d MiB\n", b.o.refs, b.server.bytes.Load()/10,
		s.Mem>>20)
	return nil
}

func (b *bench) hostile() error {
	for _, h := range []struct {
		name, what string
		make       func(context.Context, string) (string, error)
	}{
		{"bomb.git", "60 files of 8 MB of zeros outside of the path", makeBomb},
		{"large.git", "a file of 100 MB of noise outside of the path", makeLarge},
	} {
		hash, err := h.make(b.ctx, b.server.path(h.name))
		if err != nil {
			return err
		}
		b.server.bytes.Store(0)
		s, err := b.client("tree", b.server.url(h.name), "-hash", hash, "-path", "pools", "-into", b.fresh("tree"))
		if err != nil {
			return fmt.Errorf("fetching %s: %w", h.what, err)
		}
		fmt.Fprintf(b.out, "%s: applied, peak %d MiB (goal ≤ 100), %d bytes\n", h.what, s.Mem>>20,
			b.server.bytes.Load())
	}
	return nil
}
