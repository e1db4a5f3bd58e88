package git

import (
	"cmp"
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
	"github.com/bunsen-os/bunsen/source/git/objects"
)

// LocalRevision names a revision of a git repository on this machine.
type LocalRevision struct {
	// Repository is a work tree, a folder in a work tree, or a bare repository.
	Repository string
	// Revision is a revision as git reads it: a branch, a tag, `HEAD~1`, a hash or the beginning of a hash; empty is
	// HEAD.
	Revision string
	// Path of the folder from the repository's root, as a GitSource's spec.path.
	Path string
	// Limits of the tree; zero fields are their defaults.
	Limits source.Limits
}

// Resolve opens the repository and finds the commit of the revision. Errors are Stalled faults: RefNotFound for a
// revision that the repository does not have; RepositoryUnreachable where there is no repository.
func (r LocalRevision) Resolve(ctx context.Context) (*gogit.Repository, plumbing.Hash, error) {
	r.Revision = cmp.Or(r.Revision, "HEAD")
	repo, err := openLocal(r.Repository)
	switch {
	case errors.Is(err, gogit.ErrRepositoryNotExists):
		return nil, plumbing.ZeroHash, fault.NewStalled(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s is not in a git repository: a revision can only be read from one", r.Repository))
	case err != nil:
		return nil, plumbing.ZeroHash, fault.NewStalled(v1alpha1.ReasonUnreachable,
			fmt.Errorf("opening the repository at %s: %w", r.Repository, err))
	}
	hash, err := repo.ResolveRevision(plumbing.Revision(r.Revision))
	if err != nil {
		return nil, plumbing.ZeroHash, notFound(ctx, repo, r, err)
	}
	return repo, *hash, nil
}

// OpenRevision puts the files of a revision into the folder into, which must exist and be empty. OpenRevision does not
// read the work tree or the index. The commit's Ref is the revision's branch or tag, empty for any other form. Errors
// are those of Resolve and Materialise.
func OpenRevision(ctx context.Context, r LocalRevision, into string) (source.Tree, error) {
	repo, hash, err := r.Resolve(ctx)
	if err != nil {
		return source.Tree{}, err
	}
	p := source.Picked{Hash: hash.String(), Ref: refOf(repo, cmp.Or(r.Revision, "HEAD"))}
	var store objects.Reader = repo.Storer
	if files, ok := repo.Storer.(*filesystem.Storage); ok {
		store = newReadStorage(files.Filesystem())
	}
	s, err := newSnapshot(store, r.Repository, p)
	if err != nil {
		return source.Tree{}, ReadFault(ctx, "reading revision "+r.Revision+" of "+r.Repository, err)
	}
	s.limits = r.Limits.OrDefault()
	return s.Materialise(ctx, r.Path, source.Destination{Dir: into})
}

// openLocal opens the repository that contains a folder: the nearest .git upwards. If there is no .git, openLocal opens
// the folder itself as a bare repository. openLocal tries .git first, because a commit can contain a folder that looks
// like a bare repository.
func openLocal(folder string) (*gogit.Repository, error) {
	repo, err := gogit.PlainOpenWithOptions(folder, &gogit.PlainOpenOptions{
		DetectDotGit:          true,
		EnableDotGitCommonDir: true,
	})
	if !errors.Is(err, gogit.ErrRepositoryNotExists) {
		return repo, err
	}
	return gogit.PlainOpenWithOptions(folder, &gogit.PlainOpenOptions{EnableDotGitCommonDir: true})
}

// notFound returns the fault for a revision that the repository does not have, with the refs that it has.
func notFound(ctx context.Context, repo *gogit.Repository, r LocalRevision, err error) error {
	text := fmt.Sprintf("no revision %q in %s", r.Revision, r.Repository)
	if _, headErr := repo.Head(); headErr != nil && r.Revision == "HEAD" {
		text += ": it has no commit yet"
	} else if root, e := repo.Worktree(); e == nil {
		text += refsText(ctx, root.Filesystem.Root())
	} else {
		text += refsText(ctx, r.Repository)
	}
	if !errors.Is(err, plumbing.ErrReferenceNotFound) && !errors.Is(err, object.ErrParentNotFound) {
		text += fmt.Sprintf(" (%v)", err)
	}
	return fault.NewStalled(v1alpha1.ReasonRefNotFound, errors.New(text))
}

// refsText lists the refs of a repository for a message, or returns "".
func refsText(ctx context.Context, path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	refs, err := local{path}.list(ctx, nil)
	if err != nil {
		return ""
	}
	return "; it has " + source.RefsText(refs)
}

// refOf returns the branch or tag that a revision names, or the branch of HEAD; "" for other revisions.
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
