package repository

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

const maxListed = 20

// commit needs an existing, empty directory.
func (p Push) commit(ctx context.Context, into string) (source.Tree, error) {
	at := git.LocalRevision{
		Repository: p.Repo, Revision: p.Revision,
		Path: Repository{Repo: p.Repo, Path: p.Path}.Folder(),
	}
	repo, hash, err := at.Resolve(ctx)
	if err != nil {
		return source.Tree{}, err
	}
	if p.Revision == "" {
		folder, err := source.CleanPath(at.Path)
		if err != nil {
			return source.Tree{}, err
		}
		if err := checkClean(repo, folder); err != nil {
			return source.Tree{}, err
		}
	}
	tree, err := git.OpenRevision(ctx, at, into)
	if err != nil {
		return tree, err
	}
	if tree.Commit.Hash != hash.String() {
		return tree, errors.New("another process moved the revision: push again")
	}
	tree.Commit.Ref = "" // The artifact's digest must not depend on the branch that is checked out.
	tree.Commit.URL = originOf(repo)
	if p.Source != "" {
		tree.Commit.URL = source.Redact(p.Source)
	}
	return tree, p.checkRefused(tree.Refused)
}

// checkRefused lists the entries that no tree can have.
func (p Push) checkRefused(refused []source.Refusal) error {
	if len(refused) == 0 || p.AllowPartial {
		return nil
	}
	var lines []string
	for _, r := range refused {
		lines = append(lines, r.Path+": "+r.Why)
	}
	return fmt.Errorf("the commit has entries that no source applies: remove them, name a folder without them with "+
		"--path, or set --allow-partial to leave them out\n%s", list(lines))
}

// checkClean lists the files below the path that differ from HEAD. A bare repository has no work tree, so there are
// none.
func checkClean(repo *gogit.Repository, path string) error {
	work, err := repo.Worktree()
	if errors.Is(err, gogit.ErrIsBareRepository) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the work tree: %w", err)
	}
	status, err := work.Status()
	if err != nil {
		return fmt.Errorf("comparing the work tree with HEAD: %w", err)
	}
	var changed []string
	for name, s := range status {
		if (s.Worktree != gogit.Unmodified || s.Staging != gogit.Unmodified) &&
			(path == "" || name == path || strings.HasPrefix(name, path+"/")) {
			changed = append(changed, name)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	slices.Sort(changed)
	return fmt.Errorf("the work tree has changes that are not in the commit: commit them, or push the commit without "+
		"them with --rev HEAD\n%s", list(changed))
}

// originOf returns the URL of the remote named origin, without credentials; "" if there is none.
func originOf(repo *gogit.Repository) string {
	origin, err := repo.Remote("origin")
	if err != nil || len(origin.Config().URLs) == 0 {
		return ""
	}
	return source.Redact(origin.Config().URLs[0])
}

// list returns the first lines, indented, and the number of the others.
func list(lines []string) string {
	text := "  " + strings.Join(lines[:min(len(lines), maxListed)], "\n  ")
	if more := len(lines) - maxListed; more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return text
}

// CompleteRevisions offers the branches and tags of the repository in the current directory.
func CompleteRevisions(ctx context.Context, repo string) []string {
	opened, _, err := (git.LocalRevision{Repository: repo}).Resolve(ctx)
	if err != nil {
		return nil
	}
	refs, err := opened.References()
	if err != nil {
		return nil
	}
	var out []string
	// Completion offers the refs that could be read.
	_ = refs.ForEach(func(r *plumbing.Reference) error {
		if r.Name().IsBranch() || r.Name().IsTag() {
			out = append(out, r.Name().Short())
		}
		return nil
	})
	slices.Sort(out)
	return out
}
