package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/peers"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/repository"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `bunsen build: the files of a directory are copied, transpiled, rendered and printed, with no results of earlier runs.
`

func run(ctx context.Context, args []string, out io.Writer) error {
	sizes := measure.Sizes{125, 250, 500, 1000}
	limit := measure.Limit{Runs: 5}
	f := flag.NewFlagSet("build", flag.ContinueOnError)
	f.Var(&sizes, "sizes", "numbers of fragments, growing")
	f.DurationVar(&limit.Time, "time", 700*time.Millisecond, "repeat a row until it has taken the CPU for this long; "+
		"each runs at least once")
	if err := f.Parse(args); err != nil {
		return err
	}
	dir, done, err := measure.Scratch()
	if err != nil {
		return err
	}
	defer done()
	fmt.Fprint(out, preface, measure.Machine())
	t := &measure.Table{
		Title: "One pool", Explained: "each fragment 5 files of 50–100 bytes and a unit",
		Of: "fragments", Parts: []string{"copy", "transpile", "render", "print"},
	}
	for _, n := range sizes {
		both, err := measured(ctx, limit, filepath.Join(dir, fmt.Sprint(n)), n)
		if err != nil {
			return fmt.Errorf("measuring %d fragments: %w", n, err)
		}
		t.Add(measure.Row{
			What: "from nothing", Size: n, Sample: both[0],
			Goal:  measure.Goal{Ratio: 1, Growth: measure.NLogN(max(n/4, 2), n), Why: "n log n"},
			Peers: []measure.Peer{measure.Took(peers.InARow, both[1].CPU)},
		})
	}
	if err := t.Print(out); err != nil {
		return err
	}
	return measure.Finish(out, nil, t)
}

// measured builds a directory of n fragments several times, in turn with the peer.
func measured(ctx context.Context, limit measure.Limit, dir string, n int) ([]measure.Sample, error) {
	c := corpus.Repository{Documents: corpus.Small, Fragments: n, PerPool: n, Pools: []string{"worker"}}
	c.Files = 5
	if err := c.WriteAll(dir); err != nil {
		return nil, err
	}
	texts := c.Texts()
	return limit.Together(func(run int) (measure.Sample, error) {
		into := fmt.Sprintf("%s-copy-%d", dir, run)
		if err := os.Mkdir(into, 0o755); err != nil {
			return measure.Sample{}, err
		}
		return build(ctx, dir, into)
	}, func(int) (measure.Sample, error) {
		return measure.Of(func() error {
			_, err := peers.Build("worker", texts...)
			return err
		})
	})
}

// build runs the steps of the program.
func build(ctx context.Context, dir, into string) (measure.Sample, error) {
	var memory review.Renderings
	var tree source.Tree
	var rendering review.Rendering
	return measure.Of(func() (err error) {
		tree, err = repository.OpenDir(ctx, dir, into, nil, source.Limits{})
		return err
	}, func() error {
		if r := memory.Transpiler.Fragments(tree); r.Report.Fatal() {
			return fmt.Errorf("transpiling: %s", r.Report)
		}
		return nil
	}, func() error { // the transpiler has cached the tree
		_, rendering, _ = memory.Render(tree, nil)
		return rendering.Err
	}, func() error {
		if len(rendering.Pools) != 1 {
			return errors.New("there is no rendered pool")
		}
		text, err := yaml.Marshal(rendering.Pools[0].Rendered.Spec)
		if err == nil && len(text) == 0 {
			err = errors.New("nothing was printed")
		}
		return err
	})
}
