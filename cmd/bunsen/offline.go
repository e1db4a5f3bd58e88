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

// place is where diff looks: a directory as it is, or a revision of a repository.
type place struct {
	// repo is a directory in a repository; path the folder below it that holds pools/.
	repo, path string
}

// open returns the tree that arg names: a directory that exists, else a revision of p.repo. The caller calls done.
func (p place) open(ctx context.Context, arg string) (tree source.Tree, done func(), err error) {
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		return open(ctx, filepath.Join(arg, p.path))
	}
	into, done, err := scratch()
	if err != nil {
		return source.Tree{}, done, err
	}
	at := git.At{Repository: p.repo, Revision: arg, Path: filepath.ToSlash(filepath.Join(below(p.repo), p.path))}
	if tree, err = git.OpenRevision(ctx, at, into); err != nil {
		return source.Tree{}, done, fmt.Errorf("%q is no directory; reading it as a revision: %w", arg, err)
	}
	return tree, done, nil
}

// open returns the tree of a directory. The caller calls done.
func open(ctx context.Context, dir string) (tree source.Tree, done func(), err error) {
	into, done, err := scratch()
	if err != nil {
		return source.Tree{}, done, err
	}
	tree, err = store.OpenDir(ctx, dir, into, source.Limits{})
	return tree, done, err
}

func scratch() (dir string, done func(), err error) {
	dir, err = os.MkdirTemp("", "bunsen-tree-")
	if err != nil {
		return "", func() {}, fmt.Errorf("making a directory for files: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // a left-over in the temporary directory harms nobody
}

// below is where a directory lies in the work tree around it, so that a revision is read at the same place; empty at
// its top, and where there is no work tree.
func below(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for top := abs; ; top = filepath.Dir(top) {
		if _, err := os.Stat(filepath.Join(top, ".git")); err == nil {
			rel, err := filepath.Rel(top, abs)
			if err != nil || rel == "." {
				return ""
			}
			return rel
		}
		if top == filepath.Dir(top) {
			return ""
		}
	}
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
