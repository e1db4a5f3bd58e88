package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/peers"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/repository"
	"github.com/bunsen-os/bunsen/transpile"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

const preface = `bunsen build: the files of a directory are copied, transpiled, rendered and printed, with no results of earlier runs. And what
bunsen validate does with pools that include the same documents.
`

func run(ctx context.Context, args []string, out io.Writer) error {
	sizes, pools := measure.Sizes{125, 250, 500, 1000}, measure.Sizes{10, 50}
	limit := measure.Limit{Runs: 5}
	f := flag.NewFlagSet("build", flag.ContinueOnError)
	f.Var(&sizes, "sizes", "numbers of fragments, growing")
	f.Var(&pools, "pools", "numbers of pools that include the same documents, growing")
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
	same := &measure.Table{
		Title: "Pools that include the same documents", Explained: fmt.Sprintf("%d documents, as above", included),
		Of: "pools", Parts: []string{"transpile", "render", "check"},
	}
	for _, n := range pools {
		both, err := sharing(limit, filepath.Join(dir, fmt.Sprint("pools-", n)), n)
		if err != nil {
			return fmt.Errorf("measuring %d pools: %w", n, err)
		}
		same.Add(measure.Row{
			What: "all of them", Size: n, Sample: both[0], Goal: measure.Goal{Ratio: 2},
			Peers: []measure.Peer{measure.Took("one of them", both[1].CPU)},
		})
	}
	if err := same.Print(out); err != nil {
		return err
	}
	return measure.Finish(out, nil, t, same)
}

// included is how many documents each pool includes.
const included = 100

// sharing validates n pools that include the same documents several times, in turn with one of them.
func sharing(limit measure.Limit, dir string, n int) ([]measure.Sample, error) {
	c := corpus.Small
	c.Files = 5
	for _, of := range []int{n, 1} {
		var names []string
		for i := range included {
			name := fmt.Sprintf("%03d-document.bu", i)
			names = append(names, "../../base/"+name)
			if err := put(filepath.Join(dir, fmt.Sprint(of), "base", name), c.Butane(i, 0)); err != nil {
				return nil, err
			}
		}
		for pool := range of {
			at := filepath.Join(dir, fmt.Sprint(of), "pools", fmt.Sprintf("pool-%02d", pool), "kustomization.yaml")
			if err := put(at, "resources: ["+strings.Join(names, ", ")+"]\n"); err != nil {
				return nil, err
			}
		}
	}
	return limit.Together(func(int) (measure.Sample, error) {
		return validate(filepath.Join(dir, fmt.Sprint(n)), n)
	}, func(int) (measure.Sample, error) { return validate(filepath.Join(dir, "1"), 1) })
}

func put(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// validate runs the steps of bunsen validate.
func validate(dir string, pools int) (measure.Sample, error) {
	var memory review.Renderings
	var result transpile.Result
	var rendering review.Rendering
	tree := source.Tree{Root: dir, FS: os.DirFS(dir)}
	return measure.Of(func() error {
		if result = memory.Transpiler.Fragments(tree); result.Report.Fatal() {
			return fmt.Errorf("transpiling: %s", result.Report)
		}
		return nil
	}, func() error {
		rendering = review.Render(result, &memory.Renderer, memory.Defaults, nil)
		if len(rendering.Pools) != pools {
			return errors.Join(errors.New("pools are missing"), rendering.Err)
		}
		return rendering.Err
	}, func() error {
		owner := review.SecretOwner{Ignored: func(string) bool { return false }}
		if r := review.CheckTree(tree, result, rendering, owner, nil).Report; r.Fatal() {
			return fmt.Errorf("checking: %s", r)
		}
		return nil
	})
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
