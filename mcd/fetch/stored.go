package fetch

import (
	"context"
	"errors"
	"io"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Stored requests a file of the content store by its hash, from the servers of the cluster or from a directory.
type Stored func(ctx context.Context, hash string, headers map[string]string) (Answer, io.ReadCloser, error)

// errNoCluster is the error for a file of the content store where there is no content store.
var errNoCluster = errors.New("the file is in the content store of a cluster, and only its nodes can read it. Run " +
	"`bunsen build --content DIR`, and apply the config with --content DIR")

// WithStored returns a Web that requests files of the content store in one way, and all others from web. The parameter
// stored is nil for a machine without a content store.
func WithStored(web Web, stored Stored) Web { return storedWeb{web, stored} }

// storedWeb chooses by the address.
type storedWeb struct {
	Web
	stored Stored
}

// Get implements Web.
func (w storedWeb) Get(ctx context.Context, address string, headers map[string]string) (Answer, io.ReadCloser, error) {
	hash, ok := machineconfig.StoredHash(address)
	switch {
	case !ok:
		return w.Web.Get(ctx, address, headers)
	case w.stored == nil:
		return Answer{}, nil, errNoCluster
	}
	return w.stored(ctx, hash, headers)
}
