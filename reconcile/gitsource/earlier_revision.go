package gitsource

import (
	"context"
	"fmt"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// Transpile fetches an earlier revision of a source and transpiles it as when it was applied. The files of the revision
// usually are on disk.
func (r *Controller) Transpile(ctx context.Context, src *v1alpha1.GitSource,
	revision source.Revision,
) (transpile.Result, error) {
	repo, err := r.repository(ctx, src)
	if err != nil {
		return transpile.Result{}, fmt.Errorf("opening the repository of GitSource %q: %w", src.Name, err)
	}
	tree, err := fetchEarlier(ctx, src, repo, revision)
	if err != nil {
		return transpile.Result{}, fmt.Errorf("fetching %s: %w", revision.Short(), err)
	}
	res, err := r.Transpiler.FragmentsUntil(tree, ctx.Err)
	if err != nil {
		return transpile.Result{}, fmt.Errorf("transpiling %s: %w", revision.Short(), err)
	}
	if res.Report.Fatal() {
		return transpile.Result{}, fmt.Errorf("transpiling %s: %w", revision.Short(),
			reportError{res.Report, tree.Commit})
	}
	return res, nil
}

// fetchEarlier reads the files of an earlier commit from the disk. If the files are not on disk, fetchEarlier fetches
// the commit by its hash or, if the remote does not serve single commits, with the whole history of its ref.
func fetchEarlier(ctx context.Context, src *v1alpha1.GitSource, repo Repository,
	revision source.Revision,
) (source.Tree, error) {
	picked := source.Picked{Ref: revision.Ref, Hash: revision.Hash}
	tree, err := readTree(ctx, src, repo, picked)
	if err == nil || revision.Ref == "" {
		return tree, err
	}
	limited, cancel := context.WithTimeout(ctx, timeoutOf(src))
	defer cancel()
	refs, listErr := repo.List(limited)
	if listErr != nil {
		return source.Tree{}, err
	}
	for _, ref := range refs {
		if source.ShortRef(ref.Name) == revision.Ref {
			picked.FullName = ref.Name
			return readTree(ctx, src, repo, picked)
		}
	}
	return source.Tree{}, err
}
