package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/internal/fromgit"
	"github.com/bunsen-os/bunsen/mcs/certs"
	"github.com/bunsen-os/bunsen/mcs/content"
	"github.com/bunsen-os/bunsen/mcs/files"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/memory"
	"github.com/bunsen-os/bunsen/source/repository"
)

// withoutCluster constructs those parts of the server that read files or a repository.
func (p *program) withoutCluster(context.Context) (err error) {
	added, err := p.extra.additions()
	if err != nil {
		return err
	}
	p.additions = &files.Additions{Files: added, Set: p.pools.SetExtra, Log: p.log}
	if p.from.tokens != "" {
		tokens, err := files.OpenTokens(p.from.tokens, filepath.Join(p.from.cache, "tokens"), p.log, time.Now)
		if err != nil {
			return fmt.Errorf("opening --tokens-file: %w", err)
		}
		p.apis.tokens = tokens
		p.closers = append(p.closers, tokens)
		p.background(tokens.Run)
	}
	if p.from.dir != "" {
		dir, err := files.OpenDir(p.from.dir, fromgit.CheckName, p.pools, p.log)
		if err != nil {
			return fmt.Errorf("opening --from-dir: %w", err)
		}
		if err := p.localContent(directoryFiles(dir)); err != nil {
			return err
		}
		p.background(dir.Run)
	}
	if p.from.git != "" {
		g := p.git
		if err := g.readable(); err != nil {
			return err
		}
		repository, trees, err := openRepository(fromgit.Config{
			URL: p.from.git, Ref: g.ref, Path: g.path, Pools: g.pools, Credentials: g.credentials, Keys: g.keys,
			Defaults: fromgit.Images{OS: g.osImage, Extensions: g.extensionsImage}, Version: version, Log: p.log,
		}, p.from.cache)
		if err != nil {
			return err
		}
		p.closers = append(p.closers, trees)
		p.pools.SetReader(repository.NodeConfig)
		if err := p.localContent(repositoryFiles(repository)); err != nil {
			return err
		}
		p.background(func(ctx context.Context) {
			repository.Run(ctx, g.interval, func(configs map[string]*mcfgv1.MachineConfig) error {
				return files.SetConfigs(p.pools, configs, p.log)
			})
		})
	}
	dir := p.tls.dir
	if dir == "" {
		dir = defaultCertDir
	}
	p.cert, err = certs.OpenCertificates(dir, p.tls.hostnames, p.log)
	return err
}

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

// cleanEvery is how often a server without a cluster removes copies that no config names.
const cleanEvery = time.Hour

// localContent serves the files of the content store that a server without a cluster has itself. It removes copies of
// files that the source does not have any more.
func (p *program) localContent(stored content.Stored) error {
	all, err := p.contentOf(stored)
	if err != nil {
		return err
	}
	p.background(func(ctx context.Context) {
		tick := time.NewTicker(cleanEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := all.RemoveUnused(func(hash string) bool {
				f, err := stored(ctx, hash)
				return err == nil && f.Body.Close() == nil
			}); err != nil {
				p.log.Warn("removing copies of files that no config names", "error", err)
			}
		}
	})
	return nil
}

// errMismatch says that a file does not have the hash by which a config names it.
func errMismatch(hash string) error {
	return fmt.Errorf("the contents of the file do not have the hash %s: it is incomplete, or a user changed it", hash)
}

// repositoryFiles returns the large files of a repository.
func repositoryFiles(r *fromgit.Repository) content.Stored {
	return func(_ context.Context, hash string) (content.File, error) {
		f, ok := r.LargeFile(hash)
		if !ok {
			return content.File{}, fmt.Errorf("reading file %s: no config of the applied commit names it", hash)
		}
		from, err := f.Open()
		if err != nil {
			return content.File{}, fmt.Errorf("reading file %s of the repository: %w", hash, err)
		}
		return content.File{Size: f.Size, Body: from, Mismatch: errMismatch(hash)}, nil
	}
}

// directoryFiles returns the large files of a directory of rendered configs.
func directoryFiles(d *files.Dir) content.Stored {
	return func(_ context.Context, hash string) (content.File, error) {
		f, size, err := d.LargeFile(hash)
		if err != nil {
			return content.File{}, err
		}
		return content.File{Size: size, Body: f, Mismatch: errMismatch(hash)}, nil
	}
}
