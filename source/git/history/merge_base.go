package history

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/git"
)

// MergeBase returns the hash of the best common ancestor of two revisions: the base of `git diff one...other`. If there
// are several best common ancestors, MergeBase returns the first one that git finds. Errors are those of
// LocalRevision.Resolve.
func MergeBase(ctx context.Context, repository, one, other string) (string, error) {
	a, err := commitOf(ctx, git.LocalRevision{Repository: repository, Revision: one})
	if err != nil {
		return "", err
	}
	b, err := commitOf(ctx, git.LocalRevision{Repository: repository, Revision: other})
	if err != nil {
		return "", err
	}
	bases, err := a.MergeBase(b)
	if err != nil {
		return "", git.ReadFault(ctx, "reading the history of "+repository, err)
	}
	if len(bases) == 0 {
		return "", fault.NewStalled(v1alpha1.ReasonRefNotFound,
			fmt.Errorf("%s and %s have no common ancestor: compare them with two arguments", one, other))
	}
	return bases[0].Hash.String(), nil
}

func commitOf(ctx context.Context, revision git.LocalRevision) (*object.Commit, error) {
	repo, hash, err := revision.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	commit, err := repo.CommitObject(hash)
	if err != nil {
		return nil, git.ReadFault(ctx, "reading revision "+revision.Revision+" of "+revision.Repository, err)
	}
	return commit, nil
}
