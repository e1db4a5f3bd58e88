package git

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/bundle"
	"github.com/bunsen-os/bunsen/source/git/commits"
	"github.com/bunsen-os/bunsen/source/git/objects"
)

// bundleFile is a repository in a bundle on this machine.
type bundleFile struct{ bundle.File }

func (b bundleFile) list(ctx context.Context, prefixes []string) ([]source.Ref, error) {
	return b.Refs(ctx, prefixes)
}

func (b bundleFile) fetch(ctx context.Context, p source.Picked, _ string) (objects.Reader, error) {
	folder, err := b.open(ctx, p)
	if err != nil {
		return nil, err
	}
	return folder, nil
}

// open returns the objects of the bundle, which the caller closes. open returns an error unless these objects include
// the commit.
func (b bundleFile) open(ctx context.Context, p source.Picked) (*objects.Folder, error) {
	folder, err := b.Objects(ctx)
	if err != nil {
		return nil, err
	}
	hash := plumbing.NewHash(p.Hash)
	if folder.HasEncodedObject(hash) != nil {
		err = commitNotFound(p, "the bundle does not have it")
	} else {
		err = folder.SetTip(hash)
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

// evidence reads the commits from the bundle. The history of a bundle from a shallow repository is Unknown.
func (b bundleFile) evidence(ctx context.Context, p source.Picked) (source.Evidence, error) {
	folder, err := b.open(ctx, p)
	if err != nil {
		return source.Evidence{}, err
	}
	defer folder.Close()
	complete := false
	if p.Applied != "" {
		if complete, err = bundle.HasHistory(ctx, folder, plumbing.NewHash(p.Hash),
			plumbing.NewHash(p.Applied)); err != nil {
			return source.Evidence{}, err
		}
	}
	return commits.Evidence(ctx, folder, p, complete)
}
