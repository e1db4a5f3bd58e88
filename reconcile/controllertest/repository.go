package controllertest

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/bunsen-os/bunsen/source"
)

// Repository is a simulated remote with its trees on disk.
type Repository struct {
	T              *testing.T
	Head           string
	Trees          map[string]source.Tree
	Lists, Fetches int
	Down           error
	// Broken, if set, returns the error of each fetch by its number. Listings still work.
	Broken  func(fetch int) error
	Descent source.Descent
}

// List counts its calls, and returns the refs unless the remote is down.
func (r *Repository) List(_ context.Context, poll source.Poll) (source.Listing, error) {
	r.Lists++
	if r.Down != nil {
		return source.Listing{}, r.Down
	}
	return source.Listing{At: poll.Now, Refs: []source.Ref{
		{Name: "HEAD", Hash: r.Head, Target: "refs/heads/main"},
		{Name: "refs/heads/main", Hash: r.Head},
	}}, nil
}

// Tree returns a commit's files.
func (r *Repository) Tree(_ context.Context, p source.Picked) (source.Tree, error) {
	r.Fetches++
	if r.Broken != nil {
		return source.Tree{}, r.Broken(r.Fetches)
	}
	tree := r.Trees[p.Hash]
	tree.Commit.Ref = p.Ref
	return tree, nil
}

// Evidence returns the relation that the test set.
func (r *Repository) Evidence(_ context.Context, p source.Picked) (source.Evidence, error) {
	return source.Evidence{Ref: p.FullName, Applied: p.Applied, Descent: r.Descent}, nil
}

// Push creates a commit with exactly the files of a txtar archive, and returns its revision.
func (r *Repository) Push(subject, files string) string {
	r.T.Helper()
	archive := txtar.Parse([]byte(files))
	dir := filepath.Join(r.T.TempDir(), "tree")
	for _, f := range archive.Files {
		file := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, f.Data, 0o644)); err != nil {
			r.T.Fatal(err)
		}
	}
	n := len(r.Trees) + 1
	r.Head = fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "%d %s", n, subject)))
	r.Trees[r.Head] = source.Tree{
		Root: dir, FS: os.DirFS(dir), Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(files))),
		Commit: source.Commit{
			Hash: r.Head, Subject: subject, Author: "Ada <ada@example.com>",
			Time: Noon.Add(time.Duration(n) * time.Minute),
		},
	}
	return "main@sha1:" + r.Head
}

// Revision returns the newest revision.
func (r *Repository) Revision() string { return "main@sha1:" + r.Head }
