package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/peers"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/transpile"
)

// The two states in which the steps are measured.
const (
	cold    = "from nothing"
	changed = "one file changed"
)

// mostRuns is the maximum number of runs for a row.
const mostRuns = 5

// bench measures in its own directory; see measure.Scratch.
type bench struct {
	dir   string
	limit measure.Limit
	next  int
}

// way has the caches of the controller between two commits.
type way struct {
	remote     *git.Remote
	transpiler transpile.Transpiler
	renderer   render.Renderer
}

// measure returns the rows of a corpus: cold, and after one changed file.
func (b *bench) measure(ctx context.Context, c corpus.Repository) ([]measure.Row, error) {
	repo, err := b.folder("repo")
	if err != nil {
		return nil, err
	}
	if err := c.Git(ctx, repo, changes(c)); err != nil {
		return nil, err
	}
	var w *way
	o := &others{bench: b, repo: repo, corpus: c}
	first, err := b.together(c, func(int) (measure.Sample, error) {
		if w, err = newWay(repo); err != nil {
			return measure.Sample{}, err
		}
		return b.once(ctx, w, "main")
	}, func(int) (measure.Sample, error) { return o.clone(ctx) })
	if err != nil {
		return nil, err
	}
	second, err := b.together(c, func(run int) (measure.Sample, error) { return b.once(ctx, w, branch(run)) },
		func(run int) (measure.Sample, error) { return o.fetch(ctx, branch(run)) })
	if err != nil {
		return nil, err
	}
	first.What = cold
	second.What, second.Goal.CPU = changed, 800*time.Millisecond
	return []measure.Row{first, second}, nil
}

// together measures a repository in turn with its peer, which it has without patches.
func (b *bench) together(c corpus.Repository, ours, others measure.Once) (measure.Row, error) {
	kinds := []measure.Once{ours}
	if c.Patches == 0 {
		kinds = append(kinds, others)
	}
	samples, err := b.limit.Together(kinds...)
	if err != nil {
		return measure.Row{}, err
	}
	row := measure.Row{Size: c.Fragments, Sample: samples[0]}
	if c.Patches == 0 {
		row.Peers = []measure.Peer{measure.Took("git, "+peers.InARow, samples[1].CPU)}
		row.Goal.Ratio = 1
	}
	return row, nil
}

func newWay(repo string) (*way, error) {
	remote, err := git.New(git.Config{URL: repo})
	if err != nil {
		return nil, err
	}
	return &way{remote: remote}, nil
}

// once runs all steps for a branch.
func (b *bench) once(ctx context.Context, w *way, branch string) (measure.Sample, error) {
	into, err := b.folder("tree")
	if err != nil {
		return measure.Sample{}, err
	}
	var tree source.Tree
	var result transpile.Result
	return measure.Of(func() error {
		refs, err := w.remote.List(ctx)
		if err != nil {
			return err
		}
		picked, err := source.Pick(refs, v1alpha1.GitRef{Branch: branch})
		if err != nil {
			return err
		}
		tree, err = w.remote.Tree(ctx, picked, "", source.Destination{Dir: into})
		return err
	}, func() error {
		if result = w.transpiler.Fragments(tree); result.Report.Fatal() {
			return fmt.Errorf("transpiling: %s", result.Report)
		}
		return nil
	}, func() error {
		for pool, mcs := range byPool(result) {
			if _, err := w.renderer.Merge(pool, mcs, render.Defaults{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// byPool groups fragments like pool selectors.
func byPool(result transpile.Result) map[string][]*mcfgv1.MachineConfig {
	out := map[string][]*mcfgv1.MachineConfig{}
	for _, f := range result.Fragments {
		out[f.Pool] = append(out[f.Pool], f.MachineConfig)
	}
	return out
}

func (b *bench) folder(name string) (string, error) {
	b.next++
	dir := filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, b.next))
	return dir, os.MkdirAll(dir, 0o755)
}
