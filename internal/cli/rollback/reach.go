package rollback

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/transpile"
)

// poolFiles are the files of a repository that reach a pool, at several commits.
type poolFiles struct {
	dir, folder, pool string
	memory            review.Renderings
	read              map[string]bool
}

// rendered renders the pool at a commit, and adds the files that it reads. rendered returns the name of the pool's
// config without the MachineConfigs that only the cluster has.
func (p *poolFiles) rendered(ctx context.Context, commit string) (string, error) {
	into, err := os.MkdirTemp("", "bunsen-tree-")
	if err != nil {
		return "", fmt.Errorf("making a directory for files: %w", err)
	}
	defer func() { _ = os.RemoveAll(into) }() // A remaining temporary directory does no harm.
	tree, err := git.OpenRevision(ctx, git.LocalRevision{Repository: p.dir, Revision: commit, Path: p.folder}, into)
	if err != nil {
		return "", fmt.Errorf("reading the files of %.8s: %w", commit, err)
	}
	p.memory.AllowLargeFiles(true) // Only the files count.
	result, rendering, err := p.memory.Render(tree, ctx.Err)
	if err != nil {
		return "", fmt.Errorf("rendering %.8s: %w", commit, err)
	}
	p.add(result, p.pool)
	if result.Report.Fatal() {
		return "", fmt.Errorf("%.8s is not valid: %s", commit, strings.TrimSpace(result.Report.String()))
	}
	selected, err := transpile.Select(result, p.pool)
	if err != nil {
		return "", fmt.Errorf("rendering %.8s: %w", commit, err)
	}
	for _, f := range selected {
		p.add(result, f.Pool)
	}
	for i := range rendering.Pools {
		if r := &rendering.Pools[i].Rendered; r.Pool == p.pool {
			return r.Name, nil
		}
	}
	return "", rendering.Err
}

// add adds the files of a pool's directory.
func (p *poolFiles) add(result transpile.Result, pool string) {
	for _, file := range result.Reads[pool] {
		p.read[path.Join(p.folder, file)] = true
	}
}

// reaches reports whether a file, named from the repository's root, reaches the pool.
func (p *poolFiles) reaches(file string) bool {
	return p.read[file] || strings.HasPrefix(file, path.Join(p.folder, "pools", p.pool)+"/")
}
