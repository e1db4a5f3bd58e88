package git

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
)

// blobsPerRequest is how many files one request asks for. The files of each request stay on disk, so a fetch that was
// interrupted by its deadline continues after the last complete request.
const blobsPerRequest = 2000

// fetch gets one commit, its trees and the files below a path from the server. fetch returns the folder of objects,
// which the caller closes.
//
// If the server can leave out objects, fetch first requests the trees, and then the files below the path that are not
// on disk yet. So fetch does not fetch files outside the path. If an earlier commit is on disk, the server sends only
// the difference. A server that cannot leave out objects sends the commit with all its files.
func (r remoteRepository) fetch(ctx context.Context, p source.Picked, path string) (objects.Reader, error) {
	folder, err := r.openFolder(ctx)
	if err != nil {
		return nil, err
	}
	err = r.fetchInto(ctx, p, path, folder)
	if err != nil && ctx.Err() == nil && retryWhole(err) && folder.Tip() != plumbing.ZeroHash {
		// The objects on disk are damaged, or the server does not have them any more, so the second attempt starts with
		// an empty folder.
		if err = folder.Empty(); err == nil {
			err = r.fetchInto(ctx, p, path, folder)
		}
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

// errDamaged is in the chain of the error about objects on disk that cannot be read.
var errDamaged = errors.New("reading fetched objects")

// retryWhole reports whether a fetch without the objects on disk may succeed.
func retryWhole(err error) bool {
	var refused *transport.RefusedError
	return errors.Is(err, errDamaged) || errors.Is(err, objects.ErrMissingBase) ||
		errors.Is(err, plumbing.ErrObjectNotFound) || errors.As(err, &refused)
}

func (r remoteRepository) openFolder(ctx context.Context) (*objects.Folder, error) {
	if r.cache == nil {
		return objects.Temp()
	}
	return r.cache.Open(ctx, r.key)
}

func (r remoteRepository) fetchInto(ctx context.Context, p source.Picked, path string, folder *objects.Folder) error {
	hash := plumbing.NewHash(p.Hash)
	if folder.HasEncodedObject(hash) == nil {
		if missing, err := r.missingFiles(ctx, folder, hash, path); err == nil && len(missing) == 0 {
			return folder.SetTip(hash) // The commit is on disk, because another source of the repository fetched it.
		}
	}
	s, first, err := r.dial(ctx)
	if errors.Is(err, errVersion0) {
		defer s.Close()
		old, err := version0(s, first)
		if err != nil {
			return err
		}
		return r.fetchVersion0(ctx, p, old, folder)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	limits := r.limits
	if folder.HasEncodedObject(hash) != nil {
		if err := r.fetchFolders(ctx, s, target{p, path}, folder, &limits); err != nil {
			return r.explainRefusal(ctx, p, err)
		}
	}
	if err := folder.SetTip(hash); err != nil {
		return err
	}
	missing, err := r.missingFiles(ctx, folder, hash, path)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	for len(missing) > 0 {
		n := min(len(missing), blobsPerRequest)
		if err := s.receive(ctx, transport.FetchRequest{Wants: missing[:n]}, folder, &limits); err != nil {
			return err
		}
		missing = missing[n:]
	}
	return nil
}

// fetchFolders fetches the commit with its trees. If the path is the root of the repository, fetchFolders fetches the
// files too.
func (r remoteRepository) fetchFolders(ctx context.Context, s session, at target, folder *objects.Folder,
	limits *objects.Limits,
) error {
	f := transport.FetchRequest{Wants: []string{at.Hash}}
	if s.capabilities.Shallow() {
		f.Depth = 1
	}
	tip := folder.Tip()
	if tip != plumbing.ZeroHash && f.Depth > 0 {
		f.Haves, f.Shallow, f.Thin = []string{tip.String()}, []string{tip.String()}, true
	}
	if s.capabilities.Filters() && (at.path != "" || f.Thin) {
		f.Filter = transport.NoFiles
	}
	err := r.receive(ctx, s, f, folder, limits)
	if err == nil && folder.HasEncodedObject(plumbing.NewHash(at.Hash)) != nil {
		return commitNotFound(at.Picked, "the server sent other objects")
	}
	return err
}

// target is a commit, and a folder in the commit.
type target struct {
	source.Picked
	path string
}

// explainRefusal returns RefNotFound if the repository does not have the commit.
func (r remoteRepository) explainRefusal(ctx context.Context, p source.Picked, err error) error {
	var refused *transport.RefusedError
	if !errors.As(err, &refused) || ctx.Err() != nil {
		return err
	}
	refs, listErr := r.list(ctx, nil)
	if listErr != nil {
		return err
	}
	for _, ref := range refs {
		if ref.Commit() == p.Hash {
			return err
		}
	}
	if len(refs) == 0 {
		return commitNotFound(p, "the repository is empty")
	}
	return commitNotFound(p, "no branch or tag of the server contains it")
}

// commitNotFound returns a Retry fault for a commit that was listed, because the next listing will name another commit.
// For a pinned commit, commitNotFound returns a Stalled fault.
func commitNotFound(p source.Picked, reason string) error {
	err := fmt.Errorf("commit %s cannot be fetched: %s", p.Hash, reason)
	if p.Ref == "" {
		return fault.NewStalled(v1alpha1.ReasonRefNotFound, err)
	}
	return fault.NewRetry(v1alpha1.ReasonRefNotFound, err)
}

// missingFiles lists the files below a path of a commit that a folder does not have. missingFiles returns no error for
// a path that the commit does not have: the code that reads the files reports that.
func (r remoteRepository) missingFiles(ctx context.Context, store objects.Reader, commit plumbing.Hash,
	path string,
) ([]string, error) {
	s, err := newSnapshot(store, "", source.Picked{Hash: commit.String()})
	if err != nil {
		return nil, err
	}
	start, err := s.find(path)
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) {
			return nil, nil
		}
		return nil, err
	}
	l := lister{ctx: ctx, store: store, left: s.limits.Entries, seen: map[plumbing.Hash]bool{}}
	if r.modules {
		entry, ok, err := modulesEntry(store, s.root)
		if err != nil {
			return nil, err
		}
		if ok {
			l.file(entry)
		}
	}
	err = l.folder(start)
	return l.missing, err
}

// lister collects the files that a folder of objects does not have.
type lister struct {
	ctx     context.Context
	store   objects.Reader
	left    int // how many more entries lister may read; the code that reads the files refuses a tree with more entries
	seen    map[plumbing.Hash]bool
	missing []string
}

func (l *lister) folder(hash plumbing.Hash) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	t, err := objects.ReadTree(l.store, hash)
	if err != nil {
		return err
	}
	for _, e := range t.Entries {
		if l.left--; l.left < 0 {
			return nil
		}
		switch e.Mode {
		case filemode.Dir:
			if err := l.folder(e.Hash); err != nil {
				return err
			}
		case filemode.Regular, filemode.Deprecated, filemode.Executable:
			l.file(e.Hash)
		}
	}
	return nil
}

// file lists a file if the store does not have it.
func (l *lister) file(hash plumbing.Hash) {
	if !l.seen[hash] && l.store.HasEncodedObject(hash) != nil {
		l.missing = append(l.missing, hash.String())
	}
	l.seen[hash] = true
}
