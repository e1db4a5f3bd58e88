package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// LocalRevision names a revision of a git repository on this machine.
type LocalRevision struct {
	// Repository is a work tree, a folder in a work tree, or a bare repository, as FindAround and FindAt find it.
	Repository string
	// Exact says that Repository is the repository itself, as in the URL of a GitSource, and not a folder in it.
	Exact bool
	// Revision is a revision as git reads it: a branch, a tag, `HEAD~1`, a hash or the beginning of a hash; empty is
	// HEAD.
	Revision string
	// Path of the folder from the repository's root, as a GitSource's spec.path.
	Path string
	// Limits of the tree; zero fields are their defaults.
	Limits source.Limits
}

// Resolve opens the repository and finds the commit of the revision, as git does. Spellings that are not supported are
// errors. Errors are Stalled faults: RefNotFound for a revision that the repository does not have;
// RepositoryUnreachable where there is no repository.
func (r LocalRevision) Resolve(ctx context.Context) (*gogit.Repository, plumbing.Hash, error) {
	repo, hash, _, err := r.resolve(ctx)
	return repo, hash, err
}

// resolve also returns the full name of the ref, if the revision is the name of one.
func (r LocalRevision) resolve(ctx context.Context) (
	_ *gogit.Repository, commit plumbing.Hash, ref plumbing.ReferenceName, err error,
) {
	r.Revision = cmp.Or(r.Revision, "HEAD")
	repo, err := r.open()
	var none noRepositoryError
	switch {
	case errors.As(err, &none):
		return nil, plumbing.ZeroHash, "", fault.NewStalled(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%w: a revision can only be read from one", err))
	case err != nil:
		return nil, plumbing.ZeroHash, "", fault.NewStalled(v1alpha1.ReasonUnreachable,
			fmt.Errorf("opening the repository at %s: %w", r.Repository, err))
	}
	store, is := repo.Storer.(localStorage)
	if !is {
		return nil, plumbing.ZeroHash, "", fmt.Errorf("reading %s: it is not a repository on this "+
			"machine", r.Repository)
	}
	hash, ref, err := spelling{store, r.Revision}.resolve()
	switch {
	case errors.Is(err, errNoRevision):
		return nil, plumbing.ZeroHash, "", notFound(ctx, repo, r)
	case err != nil:
		return nil, plumbing.ZeroHash, "", fault.NewStalled(v1alpha1.ReasonRefNotFound, err)
	}
	return repo, hash, ref, nil
}

func (r LocalRevision) open() (*gogit.Repository, error) {
	find := FindAround
	if r.Exact {
		find = FindAt
	}
	at, err := find(r.Repository)
	if err != nil {
		return nil, err
	}
	return at.Open()
}

// OpenRevision puts the files of a revision into the folder into, which must exist and be empty. OpenRevision does not
// read the work tree or the index. The commit's Ref is the revision's branch or tag, empty for any other form. Errors
// are those of Resolve and Materialise.
func OpenRevision(ctx context.Context, r LocalRevision, into string) (source.Tree, error) {
	repo, hash, ref, err := r.resolve(ctx)
	if err != nil {
		return source.Tree{}, err
	}
	p := source.Picked{Hash: hash.String(), Ref: source.ShortRef(string(ref))}
	s, err := newSnapshot(repo.Storer, r.Repository, p)
	if err != nil {
		return source.Tree{}, ReadFault(ctx, "reading revision "+r.Revision+" of "+r.Repository, err)
	}
	s.limits = r.Limits.OrDefault()
	return s.Materialise(ctx, r.Path, source.Destination{Dir: into})
}

// notFound returns the fault for a revision that the repository does not have, with the refs that it has.
func notFound(ctx context.Context, repo *gogit.Repository, r LocalRevision) error {
	text := fmt.Sprintf("no revision %q in %s", r.Revision, r.Repository)
	if _, headErr := repo.Head(); headErr != nil && r.Revision == "HEAD" {
		text += ": it has no commit yet"
	} else if refs, err := listRefs(ctx, repo.Storer); err == nil {
		text += "; it has " + source.RefsText(refs)
	}
	return fault.NewStalled(v1alpha1.ReasonRefNotFound, errors.New(text))
}
