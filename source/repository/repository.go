package repository

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
)

// Repository is one folder of a repository, as a source follows it. Opener.Open creates it; a Repository without an
// Opener shares nothing with others.
type Repository struct {
	// Remote reads the repository; nil if its credentials expire, so that each request connects anew.
	Remote Remote
	// Store has the trees of commits that were fetched before.
	Store *Store
	// URL of the repository, without credentials.
	URL string
	// Path of the folder, as a GitSource's spec.path.
	Path string
	// Ref limits List to the refs that this GitRef needs; nil: List returns all refs.
	Ref *v1alpha1.GitRef
	// Include is as in StoreKey. The remote fetches this content.
	Include string
	// Trust is as in StoreKey. If it is set, a tree is stored only if the remote verified a signature of its commit.
	Trust string

	// tokens are the credentials that expire; nil if Remote has its own.
	tokens *issuer
	// shared has what the sources of this repository with the same credentials read, under the key; nil: nothing.
	shared *shared
	key    string
}

// Remote reads one repository with one set of credentials. git.Remote and oci.Remote implement it.
type Remote interface {
	// List returns at least the refs whose names begin with one of the prefixes; without prefixes, all refs.
	List(ctx context.Context, prefixes ...string) ([]source.Ref, error)
	// Evidence returns the objects of the commits since picked.Applied, and fetches no files.
	Evidence(ctx context.Context, picked source.Picked) (source.Evidence, error)
	// Tree puts the files of a commit below path into a directory.
	Tree(ctx context.Context, picked source.Picked, path string, into source.Destination) (source.Tree, error)
	// URL returns the repository's address without credentials.
	URL() string
}

// shared is what the sources of one process share: for each repository with one set of credentials, the last listings
// of its refs and the last evidence.
type shared struct {
	listings Listings
	evidence Evidence
}

// List returns the refs of the repository, at least those that Ref needs, and when their listing began. It may be the
// listing of another source with the same address and the same credentials. If Ref names a ref that does not exist,
// List returns all branches and tags, because the error of source.Pick names them.
func (r Repository) List(ctx context.Context, poll source.Poll) (source.Listing, error) {
	if r.Ref == nil {
		refs, err := r.list(ctx, nil)
		return source.Listing{Refs: refs, At: poll.Now}, err
	}
	found, err := r.listShared(ctx, poll, source.Prefixes(*r.Ref))
	if err != nil {
		return source.Listing{}, err
	}
	if _, err := source.Pick(found.Refs, *r.Ref); fault.Of(err, "").Reason != v1alpha1.ReasonRefNotFound {
		return found, nil
	}
	refs, err := r.list(ctx, []string{"HEAD", "refs/heads/", "refs/tags/"})
	return source.Listing{Refs: refs, At: poll.Now}, err
}

// listShared returns the refs with the prefixes, possibly those that another source has listed.
func (r Repository) listShared(ctx context.Context, poll source.Poll, prefixes []string) (source.Listing, error) {
	if r.shared == nil {
		refs, err := r.list(ctx, prefixes)
		return source.Listing{Refs: refs, At: poll.Now}, err
	}
	return r.shared.listings.List(ctx, Request{Poll: poll, Key: r.key, Prefixes: prefixes}, r.list)
}

// list requests the refs with the prefixes.
func (r Repository) list(ctx context.Context, prefixes []string) (refs []source.Ref, err error) {
	err = r.connect(ctx, func(remote Remote) error {
		refs, err = remote.List(ctx, prefixes...)
		return err
	})
	return refs, err
}

// Evidence returns the objects of the commits that a commit adds to picked.Applied, and the relation of both commits.
// Another source may have read them.
func (r Repository) Evidence(ctx context.Context, picked source.Picked) (source.Evidence, error) {
	if r.shared == nil {
		return r.evidence(ctx, picked)
	}
	return r.shared.evidence.Read(ctx, r.key, picked, r.evidence)
}

// evidence requests the objects of the commits.
func (r Repository) evidence(ctx context.Context, picked source.Picked) (e source.Evidence, err error) {
	err = r.connect(ctx, func(remote Remote) error {
		e, err = remote.Evidence(ctx, picked)
		return err
	})
	return e, err
}

// Tree returns a commit's files, from the store if the store has them. Errors are those of the remote and of the store.
func (r Repository) Tree(ctx context.Context, picked source.Picked) (source.Tree, error) {
	folder, err := source.CleanPath(r.Path)
	if err != nil {
		return source.Tree{}, err
	}
	k := StoreKey{URL: r.URL, Hash: picked.Hash, Path: folder, Trust: r.Trust, Include: r.Include}
	tree, ok, err := r.Store.Get(k)
	if err == nil && !ok {
		tree, err = r.Store.Put(k, func(into source.Destination) (source.Tree, error) {
			return r.Fetch(ctx, picked, into)
		})
	}
	if err != nil {
		return source.Tree{}, err
	}
	tree.Commit.Ref = picked.Ref
	return tree, nil
}

// Fetch is Tree without the store: it always reads the files from the remote, into a directory. It fails if Trust is
// set and the remote verified no signature.
func (r Repository) Fetch(ctx context.Context, picked source.Picked, into source.Destination) (source.Tree, error) {
	folder, err := source.CleanPath(r.Path)
	if err != nil {
		return source.Tree{}, err
	}
	var tree source.Tree
	err = r.connect(ctx, func(remote Remote) error {
		tree, err = remote.Tree(ctx, picked, folder, into)
		return err
	})
	if err == nil && r.Trust != "" && tree.Commit.Signer == "" {
		return source.Tree{}, fmt.Errorf("fetching %s: a signature is required, but the remote verified none",
			picked.Revision().Short())
	}
	return tree, err
}

// connect calls do with the remote. If its credentials expire, it gets valid ones first; if the remote refuses them,
// the next call gets new ones.
func (r Repository) connect(ctx context.Context, do func(Remote) error) error {
	if r.tokens == nil {
		return do(r.Remote)
	}
	credentials, err := r.tokens.credentials(ctx)
	if err != nil {
		return err
	}
	remote, err := r.tokens.connect(credentials)
	if err != nil {
		return err
	}
	err = do(remote)
	if err == nil || fault.Of(err, "").Reason != v1alpha1.ReasonAuthentication {
		return err
	}
	r.tokens.forget(credentials)
	if r.tokens.advice == "" {
		return err
	}
	f := fault.Of(err, "")
	f.Err = errors.New(strings.ReplaceAll(f.Err.Error(), access.CheckAdvice, r.tokens.advice))
	return f
}
