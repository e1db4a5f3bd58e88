package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5"
	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/commits"
	"github.com/bunsen-os/bunsen/source/git/objects"
)

// local is a repository on this machine, bare or with a work tree. Each method opens the repository again. So a method
// sees a push by another process completely or not at all, because git moves objects into place before it moves a ref.
type local struct{ path string }

func (l local) open() (storage.Storer, error) {
	repo, err := gogit.PlainOpenWithOptions(l.path, &gogit.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return nil, err
	}
	fs, ok := repo.Storer.(*filesystem.Storage)
	if !ok {
		return nil, errors.New("the repository is not stored in files")
	}
	return newReadStorage(withoutLocks{fs.Filesystem()}), nil
}

// newReadStorage opens a repository's files to read many objects. The storage keeps packs open until the garbage
// collector frees it. The storage does not cache which packs exist, because another process may push or repack.
func newReadStorage(fs billy.Filesystem) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(fs, cache.NewObjectLRUDefault(), filesystem.Options{KeepDescriptors: true})
}

// withoutLocks hides the lock files that git creates beside a ref while it writes the ref. The library would read lock
// files as refs.
type withoutLocks struct{ billy.Filesystem }

// ReadDir lists a folder without its lock files.
func (w withoutLocks) ReadDir(path string) ([]os.FileInfo, error) {
	all, err := w.Filesystem.ReadDir(path)
	return slices.DeleteFunc(all, func(i os.FileInfo) bool { return strings.HasSuffix(i.Name(), ".lock") }), err
}

func (l local) list(ctx context.Context, _ []string) ([]source.Ref, error) {
	store, err := l.open()
	if err != nil {
		return nil, err
	}
	iter, err := store.IterReferences()
	if err != nil {
		return nil, err
	}
	var refs []source.Ref
	var head *source.Ref
	err = iter.ForEach(func(r *plumbing.Reference) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case r.Name() == plumbing.HEAD && r.Type() == plumbing.SymbolicReference:
			head = &source.Ref{Name: "HEAD", Target: string(r.Target())}
		case r.Name() == plumbing.HEAD:
			head = &source.Ref{Name: "HEAD", Hash: r.Hash().String()}
		case r.Type() == plumbing.HashReference:
			refs = append(refs, peel(store, r))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(refs, func(a, b source.Ref) int { return strings.Compare(a.Name, b.Name) })
	if head == nil || len(refs) == 0 && head.Hash == "" {
		return refs, nil
	}
	for _, r := range refs {
		if r.Name == head.Target {
			head.Hash = r.Hash
		}
	}
	return slices.Insert(refs, 0, *head), nil
}

// peel follows an annotated tag to its commit.
func peel(store storer.EncodedObjectStorer, r *plumbing.Reference) source.Ref {
	ref := source.Ref{Name: string(r.Name()), Hash: r.Hash().String()}
	for hash, depth := r.Hash(), 0; r.Name().IsTag() && depth < 8; depth++ {
		tag, err := object.GetTag(store, hash)
		if err != nil {
			break
		}
		hash = tag.Target
		ref.Peeled = hash.String()
	}
	return ref
}

func (l local) fetch(_ context.Context, p source.Picked, _ string) (objects.Reader, error) {
	store, err := l.open()
	if err != nil {
		return nil, err
	}
	return store, hasCommit(store, p)
}

// hasCommit returns an error unless a repository has the commit.
func hasCommit(store storer.EncodedObjectStorer, p source.Picked) error {
	_, err := store.EncodedObject(plumbing.CommitObject, plumbing.NewHash(p.Hash))
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return commitNotFound(p, "the repository does not have it")
	}
	return err
}

// evidence reads the commits from the disk. The history of a shallow repository is Unknown.
func (l local) evidence(ctx context.Context, p source.Picked) (source.Evidence, error) {
	store, err := l.open()
	if err != nil {
		return source.Evidence{}, err
	}
	if err := hasCommit(store, p); err != nil {
		return source.Evidence{}, err
	}
	ends, err := store.Shallow()
	if err != nil {
		return source.Evidence{}, fmt.Errorf("reading where the history ends: %w", err)
	}
	return commits.Evidence(ctx, store, p, len(ends) == 0)
}
