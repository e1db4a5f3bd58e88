package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bunsen-os/bunsen/review"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/store"
	"github.com/bunsen-os/bunsen/transpile"
)

// place is where diff, comment and explain look: a directory as it is, or a revision of a repository.
type place struct {
	// repo is a directory in a repository; path the folder below it that holds pools/.
	repo, path string
	// revisions takes no name for a directory but repo and those that are written as paths, such as ./main. Where a pull
	// request is judged, its own files must not stand in for a commit of that name.
	revisions bool
}

// open returns the tree that arg names: a directory that exists, else a revision of p.repo. What could be both is an
// error, but for HEAD, which is the revision. The caller calls done.
func (p place) open(ctx context.Context, arg string) (tree source.Tree, done func(), err error) {
	if p.directory(arg) {
		return open(ctx, filepath.Join(arg, p.path))
	}
	if info, err := os.Stat(arg); err == nil && info.IsDir() && !p.revisions {
		switch _, err := git.OpenHistory(ctx, git.At{Repository: p.repo, Revision: arg}); {
		case err != nil:
			return open(ctx, filepath.Join(arg, p.path))
		case arg != "HEAD":
			return source.Tree{}, func() {}, fmt.Errorf("%q is a directory, and a revision of the repository too: write ./%[2]s for the directory, or a longer name (refs/heads/%[2]s, refs/tags/%[2]s, a hash) for the revision", arg, arg)
		}
	}
	into, done, err := scratch()
	if err != nil {
		return source.Tree{}, done, err
	}
	at := git.At{Repository: p.repo, Revision: arg, Path: p.folder()}
	if tree, err = git.OpenRevision(ctx, at, into); err != nil {
		if p.revisions {
			return source.Tree{}, done, fmt.Errorf("reading %q as a revision: %w", arg, err)
		}
		return source.Tree{}, done, fmt.Errorf("%q is no directory; reading it as a revision: %w", arg, err)
	}
	return tree, done, nil
}

// folder is where pools/ is, from the repository's root.
func (p place) folder() string { return filepath.ToSlash(filepath.Join(below(p.repo), p.path)) }

// directory tells of an argument that can be nothing else.
func (p place) directory(arg string) bool {
	return arg == p.repo || arg == "." || arg == ".." || filepath.IsAbs(arg) || strings.HasSuffix(arg, "/") ||
		strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../")
}

// open returns the tree of a directory that has pools/. The caller calls done.
func open(ctx context.Context, dir string) (tree source.Tree, done func(), err error) {
	if err := checkFolder(dir); err != nil {
		return source.Tree{}, func() {}, err
	}
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

// rendition is a tree's result and what its pools render to.
type rendition struct {
	result    transpile.Result
	rendering review.Rendering
}

// errNotValid tells of a tree that was read and gives no pools, unlike one that could not be read.
var errNotValid = errors.New("the repository is not valid")

// renderWith builds every pool of a tree; the error carries the whole report where that is fatal.
func renderWith(ctx context.Context, memory *review.Renderings, tree source.Tree) (rendition, error) {
	res, out, err := memory.RenderUntil(tree, ctx.Err)
	if err != nil {
		return rendition{}, invalid(fmt.Errorf("rendering the repository: %w", err))
	}
	if err := checked(res, out); err != nil {
		return rendition{}, err
	}
	return rendition{res, out}, nil
}

// checked is an error where a tree gives no pools.
func checked(res transpile.Result, out review.Rendering) error {
	switch {
	case res.Report.Fatal():
		return invalid(fmt.Errorf("%w:\n%s", errNotValid, res.Report))
	case out.Err != nil:
		return invalid(fmt.Errorf("%w:\n%w", errNotValid, out.Err))
	}
	return nil
}

func directory(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "."
}
