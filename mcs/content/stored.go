package content

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Stored opens a file of the content store by its hash. The error says where the file is missing.
type Stored func(ctx context.Context, hash string) (File, error)

// File is a file of the content store before it was verified.
type File struct {
	// Size of the file in bytes.
	Size int64
	// Body has the contents of the file. The receiver closes it.
	Body io.ReadCloser
	// Mismatch is the error for contents with another hash or another size.
	Mismatch error
}

// errNoRegistry says why a server of a cluster has no file of the content store.
var errNoRegistry = errors.New("the server has no --content-registry: set it to the controller's value")

// InRegistry returns the files of the content store that the controller keeps in a repository of a registry. Without a
// repository, there are none.
func InRegistry(repository machineconfig.Artifact, registries Registries) Stored {
	return func(ctx context.Context, hash string) (File, error) {
		if repository.Registry == "" {
			return File{}, fmt.Errorf("reading file %s: %w", hash, errNoRegistry)
		}
		at := repository
		at.Tag = machineconfig.ContentTag(hash)
		at, err := registries.Resolve(ctx, at)
		if err != nil {
			return File{}, fmt.Errorf("reading file %s from %s: %w", hash, repository, err)
		}
		layer, body, err := registries.File(ctx, at)
		if err != nil {
			return File{}, fmt.Errorf("reading file %s from %s: %w", hash, at, err)
		}
		if layer.Size < 0 || layer.Size > machineconfig.MaxContent {
			body.Close() //nolint:errcheck,gosec // only read
			return File{}, fmt.Errorf("reading file %s from %s: it cannot have %d bytes", hash, at, layer.Size)
		}
		return File{Size: layer.Size, Body: body, Mismatch: fmt.Errorf("reading file %s from %s: the registry sends "+
			"other bytes: delete the artifact, and the controller pushes it again", hash, at)}, nil
	}
}

// copyStored makes sure that the directory has a verified copy of a file of the content store, and returns its size.
func (c *Copies) copyStored(ctx context.Context, name string) (int64, error) {
	if size, ok := verify(c.path(name), name); ok {
		return size, nil
	}
	f, err := c.Stored(ctx, name)
	if err != nil {
		return 0, err
	}
	defer f.Body.Close() //nolint:errcheck // only read
	return f.Size, c.write(name, f.Size, func(to io.Writer) error {
		sum := newSum(name)
		// One byte more shows a file that is too long.
		got, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(f.Body, f.Size+1))
		if err != nil {
			return fmt.Errorf("reading file %s: %w", name, err)
		}
		if got != f.Size || sum.String() != name {
			return f.Mismatch
		}
		return nil
	})
}
