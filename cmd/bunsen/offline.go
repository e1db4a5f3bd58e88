package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bunsen-os/bunsen/reconcile/render"
	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/store"
	"github.com/bunsen-os/bunsen/transpile"
)

// place is where the offline verbs look: a directory as it is, or a revision of a repository.
type place struct {
	// repo is a directory of the repository; path the folder in it that holds pools/.
	repo, path string
}

// open returns the tree that arg names: a directory that exists, else a revision of p.repo. The caller calls done.
func (p place) open(ctx context.Context, arg string) (tree source.Tree, done func(), err error) {
	done = func() {}
	into, err := os.MkdirTemp("", "bunsen-tree-")
	if err != nil {
		return source.Tree{}, done, fmt.Errorf("making a directory for the files of %q: %w", arg, err)
	}
	done = func() { _ = os.RemoveAll(into) } // a left-over in the temporary directory harms nobody
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		tree, err = store.OpenDir(ctx, filepath.Join(arg, p.path), into, source.Limits{})
		return tree, done, err
	}
	tree, err = git.OpenRevision(ctx, git.At{Repository: p.repo, Revision: arg, Path: p.path}, into)
	if err != nil {
		return source.Tree{}, done, fmt.Errorf("%q is no directory; reading it as a revision: %w", arg, err)
	}
	return tree, done, nil
}

// transpiled is a tree's result, and an error that carries the whole report where it is fatal.
func transpiled(tree source.Tree) (transpile.Result, error) {
	res := (&transpile.Transpiler{}).Fragments(tree)
	if res.Report.Fatal() {
		return res, invalid(fmt.Errorf("the repository is not valid:\n%s", res.Report))
	}
	return res, nil
}

// rendered builds every pool of a tree.
func rendered(tree source.Tree, d render.Defaults) (transpile.Result, review.Rendering, error) {
	res, err := transpiled(tree)
	if err != nil {
		return res, review.Rendering{}, err
	}
	out := review.Render(res, &render.Renderer{}, d)
	if out.Err != nil {
		return res, out, invalid(out.Err)
	}
	return res, out, nil
}

func directory(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "."
}
