package main

import (
	"context"
	"fmt"
	"os"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/internal/review"

	"github.com/bunsen-os/bunsen/internal/review/report"
	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/transpile"
)

// ofBranch is the index of the first step for a branch if main is in the cache.
const ofBranch = 3

// steps returns the table of the program's steps, which it measures by calling the program's functions.
func (b *bench) steps(ctx context.Context) (*measure.Table, error) {
	t := &measure.Table{
		Title: "Its steps, in one process", Explained: "git reads the files of both commits, each side is transpiled " +
			"and rendered",
		Of: "changed", Parts: []string{
			"git", "main's fragments", "rendered", "branch's fragments", "rendered",
			"compare", "print",
		},
	}
	repo, err := b.repository(ctx, b.size)
	if err != nil {
		return nil, err
	}
	if _, err := b.once(ctx, repo, "none"); err != nil { // libraries load some data only once
		return nil, err
	}
	for _, n := range b.changesFor(b.size) {
		s, err := b.limit.Median(func(run int) (measure.Sample, error) { return b.once(ctx, repo, branch(n, run)) })
		if err != nil {
			return nil, err
		}
		t.Add(measure.Row{What: "changed", Size: n, Sample: s})
	}
	return t, nil
}

// once runs the program's steps for two commits.
func (b *bench) once(ctx context.Context, repo, branch string) (measure.Sample, error) {
	var memory review.Renderings
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
			sides[i] = review.Render(results[i], &memory.Renderer, render.Defaults{}, nil)
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
		found = review.Compare(sides[0].Side("main"), sides[1].Side(branch))
		return nil
	}, func() error {
		if text := report.Markdown(found, report.MarkdownOptions{}); text == "" {
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
	return git.OpenRevision(ctx, git.LocalRevision{Repository: repo, Revision: revision}, into)
}
