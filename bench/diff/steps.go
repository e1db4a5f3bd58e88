package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/store"
	"github.com/bunsen-os/bunsen/transpile"
)

// ofBranch is the first of the steps that a branch costs where main is known.
const ofBranch = 3

// steps is the table of what the program's time is made of, by the functions that it calls.
func (b *bench) steps(ctx context.Context) (*measure.Table, error) {
	t := &measure.Table{
		Title: "Its steps, in one process", Explained: "git reads the files of both commits, each side is transpiled and rendered",
		Of: "changed", Parts: []string{"git", "main's fragments", "rendered", "branch's fragments", "rendered", "compare", "print"},
	}
	repo, err := b.repository(ctx, b.size)
	if err != nil {
		return nil, err
	}
	warm := b.folder("shelf")
	if _, err := b.once(ctx, repo, "none", warm); err != nil { // for the shelf, and for what libraries load once
		return nil, err
	}
	s, err := b.limit.Median(func(run int) (measure.Sample, error) { return b.once(ctx, repo, branch(1, run), b.folder("shelf")) })
	if err != nil {
		return nil, err
	}
	t.Add(measure.Row{What: "cold", Size: 1, Sample: s})
	for _, n := range b.changesFor(b.size) {
		s, err := b.limit.Median(func(run int) (measure.Sample, error) { return b.once(ctx, repo, branch(n, run), warm) })
		if err != nil {
			return nil, err
		}
		t.Add(measure.Row{What: "warm", Size: n, Sample: s})
	}
	return t, nil
}

// once does what the program does for two commits.
func (b *bench) once(ctx context.Context, repo, branch, shelf string) (measure.Sample, error) {
	var memory review.Renderings
	kept, err := store.OpenShelf(shelf, "bench", time.Now())
	if err != nil {
		return measure.Sample{}, err
	}
	memory.Transpiler.Shelf = kept
	var trees [2]source.Tree
	var results [2]transpile.Result
	var sides [2]review.Rendering
	transpiled := func(i int) func() error {
		return func() error {
			if results[i] = memory.Transpiler.Fragments(trees[i]); results[i].Report.Fatal() {
				return fmt.Errorf("transpiling: %s", results[i].Report)
			}
			return nil
		}
	}
	rendered := func(i int) func() error {
		return func() error {
			sides[i] = review.Render(results[i], &memory.Renderer, render.Defaults{})
			return sides[i].Err
		}
	}
	var found review.Comparison
	return measure.Of(func() (err error) {
		for i, revision := range []string{"main", branch} {
			if trees[i], err = b.open(ctx, repo, revision); err != nil {
				return err
			}
		}
		return nil
	}, transpiled(0), rendered(0), transpiled(1), rendered(1), func() error {
		policy, err := review.PolicyOf(results[1])
		found = review.Compare(sides[0].Side("main"), sides[1].Side(branch), policy)
		return err
	}, func() error {
		if text := found.Markdown(review.MarkdownOptions{}); text == "" {
			return fmt.Errorf("the comparison of %s printed nothing", branch)
		}
		return nil
	})
}

// open reads a revision into a new directory.
func (b *bench) open(ctx context.Context, repo, revision string) (source.Tree, error) {
	into := b.folder("tree")
	if err := os.MkdirAll(into, 0o755); err != nil {
		return source.Tree{}, err
	}
	return git.OpenRevision(ctx, git.At{Repository: repo, Revision: revision}, into)
}
