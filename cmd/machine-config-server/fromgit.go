package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/internal/fromgit"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/memory"
	"github.com/bunsen-os/bunsen/source/repository"
)

// keptTrees is how many commits of the repository stay on disk: the last valid commit, and later invalid commits.
const keptTrees = 5

// readable returns an error for each flag that names a missing file.
func (f gitFlags) readable() error {
	var bad []error
	for _, named := range []struct{ flag, path string }{{"--git-credentials", f.credentials}, {"--git-keys", f.keys}} {
		if named.path == "" {
			continue
		}
		if _, err := os.Stat(named.path); err != nil {
			bad = append(bad, fmt.Errorf("reading %s: %w", named.flag, err))
		}
	}
	return errors.Join(bad...)
}

// openRepository prepares to follow a repository. openRepository stores trees and the last valid commit in the cache
// directory. The caller closes the store.
func openRepository(c fromgit.Config, cacheDir string) (*fromgit.Repository, *repository.Store, error) {
	dir := filepath.Join(cacheDir, "git")
	trees, err := repository.Open(dir, keptTrees)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the store of trees (--cache-dir): %w", err)
	}
	fetched, err := objects.NewCache(trees.Objects(), time.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("opening the store of objects (--cache-dir): %w", errors.Join(err, trees.Close()))
	}
	c.Last = filepath.Join(dir, "last-good.json")
	opener := &repository.Opener{
		Now: time.Now, Store: trees, Objects: fetched, Memory: memory.New(repository.MemoryOfSources),
	}
	c.Open = func(a fromgit.Access) (fromgit.Remote, error) {
		r, err := opener.OpenGit(git.Config{URL: a.URL, Secret: a.Secret, Verify: a.Verify})
		r.Path, r.Trust = a.Path, a.Trust
		return r, err
	}
	r, err := fromgit.New(c)
	if err != nil {
		return nil, nil, fmt.Errorf("preparing to follow --from-git: %w", errors.Join(err, trees.Close()))
	}
	return r, trees, nil
}
