package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/memory"
	"github.com/bunsen-os/bunsen/source/repository"
	"github.com/bunsen-os/bunsen/source/tokens"
)

// keptTrees is how many commits of a source stay on disk, so that a revert needs no fetch.
const keptTrees = 5

// opener opens repositories. All repositories share one store for their trees, which the caller closes.
func opener(dir string) (gitsource.Open, *repository.Store, error) {
	dir, err := storeDir(dir)
	if err != nil {
		return nil, nil, err
	}
	trees, err := repository.Open(dir, keptTrees)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the store of trees (--store): %w", err)
	}
	fetched, err := objects.NewCache(trees.Objects(), time.Now())
	if err != nil {
		return nil, nil, errors.Join(err, trees.Close())
	}
	o := &repository.Opener{
		Now: time.Now, Store: trees, Objects: fetched, Servers: &transport.Servers{Now: time.Now},
		Cloud: &tokens.CloudTokens{Getenv: os.Getenv}, Memory: memory.New(repository.MemoryOfSources),
	}
	return func(spec v1alpha1.GitSourceSpec, secrets source.Secrets) (gitsource.Repository, error) {
		return o.Open(spec, secrets)
	}, trees, nil
}

// storeDir returns the directory of --store. The default directory belongs to the user, because another user could
// create a directory in a shared temporary directory first.
func storeDir(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a directory for fetched trees: %w: name one with --store", err)
	}
	return filepath.Join(cache, "bunsen", "store"), nil
}
