package git

import (
	"context"
	"fmt"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// MergeBase is the hash of the commit from which two revisions of a repository went different ways: the base of what
// `git diff one...other` compares. Of several, the first that git finds. Errors are OpenRevision's.
func MergeBase(ctx context.Context, repository, one, other string) (string, error) {
	repo, err := around(repository)
	if err != nil {
		return "", fault.NewStalled(v1alpha1.ReasonUnreachable, fmt.Errorf("opening the repository at %s: %w", repository, err))
	}
	a, err := commitOf(ctx, repo, repository, one)
	if err != nil {
		return "", err
	}
	b, err := commitOf(ctx, repo, repository, other)
	if err != nil {
		return "", err
	}
	bases, err := a.MergeBase(b)
	if err != nil {
		return "", damaged(ctx, "reading the history of "+repository, err)
	}
	if len(bases) == 0 {
		return "", fault.NewStalled(v1alpha1.ReasonRefNotFound, fmt.Errorf("%s and %s have no commit in common: compare them with two arguments", one, other))
	}
	return bases[0].Hash.String(), nil
}

func commitOf(ctx context.Context, repo *gogit.Repository, repository, revision string) (*object.Commit, error) {
	hash, err := repo.ResolveRevision(plumbing.Revision(revision))
	if err != nil {
		return nil, unresolved(ctx, repo, At{Repository: repository, Revision: revision}, err)
	}
	commit, err := repo.CommitObject(*hash)
	if err != nil {
		return nil, damaged(ctx, "reading revision "+revision+" of "+repository, err)
	}
	return commit, nil
}
