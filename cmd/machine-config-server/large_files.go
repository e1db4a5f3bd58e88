package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bunsen-os/bunsen/internal/fromgit"
	"github.com/bunsen-os/bunsen/mcs/content"
	"github.com/bunsen-os/bunsen/mcs/files"
)

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
