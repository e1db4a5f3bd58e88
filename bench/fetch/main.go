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
	fmt.Fprintf(out, "%s%d files, %d commits, medians of %d runs. The memory of git is that of its largest process.\n",
		measure.Machine(), o.files, o.commits, o.runs)
	b := bench{ctx: ctx, dir: dir, server: s, o: o}
	for _, step := range []func() error{b.pairs, b.manyRefs, b.hostile} {
		if err := step(); err != nil {
			return err
		}
	}
	return measure.Finish(out, b.figures)
}

// bench runs the rows against a server.
type bench struct {
	ctx    context.Context
	dir    string
	server *server
	o      options
	n      int

	figures []measure.Figure
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
		git := func(now measure.Amount) []measure.Peer { return []measure.Peer{{Name: "git", Now: now}} }
		received := measure.Figure{
			What: p.name + ": received", Size: b.o.files, Of: "files", Now: measure.Bytes(ourBytes),
			Peers: git(measure.Bytes(gitBytes)),
		}
		if p.bytes > 0 {
			received.Goals = []measure.Bound{measure.AtMost(measure.Bytes(p.bytes))}
		}
		b.figures = append(b.figures, measure.Figure{
			What: p.name + ": CPU time", Size: b.o.files, Of: "files", Now: measure.Time(both[1].CPU),
			Peers: git(measure.Time(both[0].CPU)), Goals: []measure.Bound{measure.RatioAtMost(p.goal)},
		}, received, measure.Figure{
			What: p.name + ": peak memory", Size: b.o.files, Of: "files", Now: measure.Bytes(both[1].Mem),
			Peers: git(measure.Bytes(both[0].Mem)),
		})
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
	b.figures = append(b.figures, measure.Figure{
		What: "a poll of many refs: received", Size: b.o.refs, Of: "refs",
		Now:   measure.Bytes(b.server.bytes.Load() / 10),
		Goals: []measure.Bound{measure.AtMost(measure.Bytes(4000))},
	}, measure.Figure{
		What: "a poll of many refs: peak memory", Size: b.o.refs, Of: "refs", Now: measure.Bytes(s.Mem),
	})
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
		s, err := b.client("tree", b.server.url(h.name), "-hash", hash, "-path", "pools", "-into", b.fresh("tree"))
		if err != nil {
			return fmt.Errorf("fetching %s: %w", h.what, err)
		}
		b.figures = append(b.figures, measure.Figure{
			What: h.what + ": peak memory", Now: measure.Bytes(s.Mem),
			Goals: []measure.Bound{measure.AtMost(measure.Bytes(100_000_000))},
		})
	}
	return nil
}
