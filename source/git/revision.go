package git

import (
	"context"
	"errors"
	"fmt"
	"os"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// At is a place in a repository on this machine.
type At struct {
	// Repository is a folder in it: its work tree, a folder of that, or a bare repository.
	Repository string
	// Revision as git reads it: a branch, a tag, `HEAD~1`, a hash or the beginning of one; empty is HEAD.
	Revision string
	// Path of the folder from the repository's root, as a GitSource's spec.path.
	Path string
	// Limits of the tree; zero fields are their defaults.
	Limits source.Limits
}

// OpenRevision puts the files of a revision into the folder into, which must exist and be empty. The work tree and the
// index are not looked at. The commit's Ref is the revision's branch or tag, empty for any other form.
//
// Errors are faults: RefNotFound for a revision that the repository does not have; RepositoryUnreachable where there is
// no repository; else as Materialise's.
func OpenRevision(ctx context.Context, at At, into string) (source.Tree, error) {
	if at.Revision == "" {
		at.Revision = "HEAD"
	}
	repo, err := around(at.Repository)
	switch {
	case errors.Is(err, gogit.ErrRepositoryNotExists):
		return source.Tree{}, fault.NewStalled(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s is in no git repository: a revision can only be read from one", at.Repository))
	case err != nil:
		return source.Tree{}, fault.NewStalled(v1alpha1.ReasonUnreachable, fmt.Errorf("opening the repository at %s: %w", at.Repository, err))
	}
	hash, err := repo.ResolveRevision(plumbing.Revision(at.Revision))
	if err != nil {
		return source.Tree{}, unresolved(ctx, repo, at, err)
	}
	p := source.Picked{Hash: hash.String(), Ref: refOf(repo, at.Revision)}
	var store objects = repo.Storer
	if files, ok := repo.Storer.(*filesystem.Storage); ok {
		store = reading(files.Filesystem())
	}
	s, err := newSnapshot(store, at.Repository, p)
	if err != nil {
		return source.Tree{}, damaged(ctx, "reading revision "+at.Revision+" of "+at.Repository, err)
	}
	s.limits = at.Limits.OrDefault()
	return s.Materialise(ctx, at.Path, into)
}

// around opens the repository that a folder is in: the nearest .git upwards, and only where there is none the folder itself as a bare
// repository. A commit can hold a folder that looks like a bare repository, and must not choose by that what is read.
func around(folder string) (*gogit.Repository, error) {
	repo, err := gogit.PlainOpenWithOptions(folder, &gogit.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if !errors.Is(err, gogit.ErrRepositoryNotExists) {
		return repo, err
	}
	return gogit.PlainOpenWithOptions(folder, &gogit.PlainOpenOptions{EnableDotGitCommonDir: true})
}

// unresolved lists what could have been meant.
func unresolved(ctx context.Context, repo *gogit.Repository, at At, err error) error {
	text := fmt.Sprintf("no revision %q in %s", at.Revision, at.Repository)
	if _, headErr := repo.Head(); headErr != nil && at.Revision == "HEAD" {
		text += ": it has no commit yet"
	} else if root, e := repo.Worktree(); e == nil {
		text += meant(ctx, root.Filesystem.Root())
	} else {
		text += meant(ctx, at.Repository)
	}
	if !errors.Is(err, plumbing.ErrReferenceNotFound) && !errors.Is(err, object.ErrParentNotFound) {
		text += fmt.Sprintf(" (%v)", err)
	}
	return fault.NewStalled(v1alpha1.ReasonRefNotFound, errors.New(text))
}

func meant(ctx context.Context, path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	refs, err := local{path}.list(ctx)
	if err != nil {
		return ""
	}
	return "; it has " + source.Names(refs)
}

// refOf names the branch or tag that a revision is, or HEAD's branch.
func refOf(repo *gogit.Repository, revision string) string {
	for _, name := range []string{revision, "refs/tags/" + revision, "refs/heads/" + revision} {
		ref, err := repo.Storer.Reference(plumbing.ReferenceName(name))
		if err != nil {
			continue
		}
		if ref.Type() == plumbing.SymbolicReference {
			name = string(ref.Target())
		}
		return source.ShortRef(name)
	}
	return ""
}
