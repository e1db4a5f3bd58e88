package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/repository"
	"github.com/bunsen-os/bunsen/transpile"
)

// Repository is the directory or repository from which diff, comment and explain read.
type Repository struct {
	// Repo is a directory in a repository. Path is the folder below it that has pools/.
	Repo, Path string
	// If Revisions is true, only Repo and names that are written as paths, such as ./main, count as directories.
	// Without this limit, in the review of a pull request, the pull request's own files could replace a commit of the
	// same name.
	Revisions bool
}

// Open returns the tree that arg names: a directory that exists, or else a revision of p.Repo. A name that could be
// both is an error, except HEAD, which is the revision. The caller must call the function done.
func (p Repository) Open(ctx context.Context, arg string) (tree source.Tree, done func(), err error) {
	if p.Directory(arg) {
		return OpenDir(ctx, filepath.Join(arg, p.Path))
	}
	if info, err := os.Stat(arg); err == nil && info.IsDir() && !p.Revisions {
		switch _, _, err := (git.LocalRevision{Repository: p.Repo, Revision: arg}).Resolve(ctx); {
		case err != nil:
			return OpenDir(ctx, filepath.Join(arg, p.Path))
		case arg != "HEAD":
			return source.Tree{}, func() {}, fmt.Errorf("%q is a directory and also a revision. Write ./%[2]s for "+
				"the directory; for the revision write refs/heads/%[2]s, refs/tags/%[2]s or a hash", arg, arg)
		}
	}
	into, done, err := tempDir()
	if err != nil {
		return source.Tree{}, done, err
	}
	at := git.LocalRevision{Repository: p.Repo, Revision: arg, Path: p.Folder()}
	if tree, err = git.OpenRevision(ctx, at, into); err != nil {
		if p.Revisions {
			return source.Tree{}, done, fmt.Errorf("reading %q as a revision: %w", arg, err)
		}
		return source.Tree{}, done, fmt.Errorf("%q is no directory; reading it as a revision: %w", arg, err)
	}
	return tree, done, nil
}

// Folder returns the path of the folder with pools/, from the repository's root.
func (p Repository) Folder() string { return filepath.ToSlash(filepath.Join(BelowTop(p.Repo), p.Path)) }

// Directory reports whether an argument must be a directory, and not a revision.
func (p Repository) Directory(arg string) bool {
	return arg == p.Repo || arg == "." || arg == ".." || filepath.IsAbs(arg) || strings.HasSuffix(arg, "/") ||
		strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../")
}

// OpenDir returns the tree of a directory that has pools/. The caller must call the function done.
func OpenDir(ctx context.Context, dir string) (tree source.Tree, done func(), err error) {
	if err := checkFolder(dir); err != nil {
		return source.Tree{}, func() {}, err
	}
	into, done, err := tempDir()
	if err != nil {
		return source.Tree{}, done, err
	}
	tree, err = repository.OpenDir(ctx, dir, into, committed(dir), source.Limits{})
	return tree, done, err
}

// committed returns a function for what git has of the files of a directory; nil outside of a work tree.
func committed(dir string) repository.Committed {
	at, err := git.FindAround(dir)
	if err != nil {
		return nil // Whoever reads the repository reports this.
	}
	c, err := at.Committed()
	if c == nil || err != nil {
		return nil
	}
	return func(name string, info fs.FileInfo, file io.ReaderAt) ([]byte, bool, bool) {
		return c.Content(path.Join(at.Folder, name), info, file)
	}
}

// tempDir returns an empty directory and a function that removes it.
func tempDir() (dir string, done func(), err error) {
	dir, err = os.MkdirTemp("", "bunsen-files-")
	if err != nil {
		return "", func() {}, fmt.Errorf("making a directory for files: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // A remaining temporary directory does no harm.
}

// CheckFormat returns a warning if the directory is in a repository that Bunsen cannot fetch, although its files are
// valid.
func CheckFormat(dir string) []transpile.Entry {
	at, err := git.FindAround(dir)
	if err == nil && at.GitDir != "" {
		_, err = at.Open()
	}
	if !errors.Is(err, git.ErrObjectFormat) {
		return nil // What one reads here matters only to commands that read revisions, and they report it.
	}
	return []transpile.Entry{{
		Severity: transpile.Warning, Rule: "repository-format",
		Message: "no GitSource can fetch this repository: it " + git.ErrObjectFormat.Error() + ", or publish the " +
			"files with `bunsen push`",
	}}
}

// BelowTop returns the path of a directory from the top of its git work tree, so that a revision is read at the same
// path. It returns "" at the top, in a bare repository and outside of a repository.
func BelowTop(dir string) string {
	at, err := git.FindAround(dir)
	if err != nil {
		return "" // Whoever opens the repository reports this.
	}
	return filepath.FromSlash(at.Folder)
}

// Ignores returns a function that reports whether git leaves a file of a directory out of commits.
func Ignores(dir string) func(file string) bool {
	at, err := git.FindAround(dir)
	if err != nil {
		return func(string) bool { return false }
	}
	return func(file string) bool {
		is, err := at.Ignores(path.Join(at.Folder, file))
		return is && err == nil // A file of which this is unknown counts as one of the repository.
	}
}

// DirArgument returns the directory that an optional argument names, by default the current directory.
func DirArgument(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "."
}
