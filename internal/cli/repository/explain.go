package repository

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/history"
)

// Question asks about items of a pool's config, such as a path. An empty Node means the nodes without a config of their
// own.
type Question struct {
	Pool, Node, Item string
	Cached           Cached
}

// Explained renders a tree and finds the items that the question names.
func Explained(ctx context.Context, tree source.Tree, q Question) (lineage.Report, error) {
	memory := &review.Renderings{}
	defer q.Cached.Use(memory)()
	memory.AllowLargeFiles(true) // The answer is about what a file becomes, whether machines can read it or not.
	result, rendering, err := Render(ctx, memory, tree)
	if err != nil {
		return lineage.Report{}, err
	}
	one := "an explanation"
	if q.Node != "" {
		one = "no document is for node " + q.Node + " alone, and " + one
	}
	pools, err := ChoosePools(poolsOf(rendering.Pools, q), q.Pool, one)
	if err != nil {
		return lineage.Report{}, cli.Invalid(err)
	}
	of := pools[0]
	own, err := of.Rendered.Node(q.Node)
	if err != nil {
		return lineage.Report{}, cli.Invalid(err)
	}
	layers, err := lineage.LayersOfNode(result, of.Rendered, q.Node)
	if err != nil {
		return lineage.Report{}, cli.Invalid(err)
	}
	items, err := lineage.New(layers, lineage.Options{Pool: of.Rendered.Pool, Mask: of.Secrets.Mask}).Find(q.Item)
	var unknown *lineage.UnknownError
	if q.Node == "" && errors.As(err, &unknown) && len(of.Rendered.Table().Nodes) > 0 {
		err = fmt.Errorf("%w. Single nodes of the pool have documents of their own: add --node NODE", err)
	}
	if err != nil {
		return lineage.Report{}, cli.Invalid(err)
	}
	report := lineage.Report{
		Version: lineage.Version, Pool: of.Rendered.Pool, Node: q.Node, Rendered: own.Name,
		Items: items,
	}
	report.Row = lineage.RowOf(result, report.Pool, q.Node)
	return report, nil
}

// ItemNames returns the names of the items that a tree sets: those of the pool or node in the question, or those of all
// pools.
func ItemNames(ctx context.Context, tree source.Tree, q Question) ([]string, error) {
	memory := &review.Renderings{}
	defer q.Cached.Use(memory)()
	memory.AllowLargeFiles(true)
	result, rendering, err := Render(ctx, memory, tree)
	if err != nil {
		return nil, err
	}
	pools, err := ChoosePools(poolsOf(rendering.Pools, q), q.Pool, "")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, of := range pools {
		layers, err := lineage.LayersOfNode(result, of.Rendered, q.Node)
		if err != nil {
			return nil, err
		}
		for _, name := range lineage.New(layers, lineage.Options{Pool: of.Rendered.Pool}).Names() {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// poolsOf returns the pool of the node if the question names no pool, and otherwise all pools.
func poolsOf(pools []review.PoolRendering, q Question) []review.PoolRendering {
	for i, p := range pools {
		if _, own := p.Rendered.Table().Nodes[q.Node]; own && q.Pool == "" && q.Node != "" {
			return pools[i : i+1]
		}
	}
	return pools
}

// Blame adds to each value the commit that last changed its lines.
func (p Repository) Blame(ctx context.Context, tree source.Tree, report *lineage.Report) error {
	commits, err := history.Open(ctx, git.LocalRevision{
		Repository: p.Repo, Revision: tree.Commit.Hash,
		Path: p.Folder(),
	})
	if err != nil {
		return err
	}
	report.Shallow = commits.IsShallow()
	r := lineage.Repository{
		Read: func(file string) ([]byte, error) { return fs.ReadFile(tree.FS, file) },
		Blame: func(file string, lines []int) (map[int]lineage.Commit, error) {
			q := history.Query{File: file, Lines: lines}
			if tree.Commit.Hash == "" { // The tree is a working directory, which may be newer than the last commit.
				text, err := fs.ReadFile(tree.FS, file)
				if err != nil {
					return nil, fmt.Errorf("reading %s: %w", file, err)
				}
				q.Text = text
			}
			found, err := commits.Blame(ctx, q)
			if err != nil {
				return nil, err
			}
			out := map[int]lineage.Commit{}
			for line, b := range found {
				out[line] = lineage.Commit{
					Hash: b.Commit.Hash, Author: b.Commit.Author, Date: b.Commit.Time,
					Subject: b.Commit.Subject,
				}
			}
			return out, nil
		},
	}
	for i := range report.Items {
		if err := report.Items[i].Annotate(r); err != nil {
			return err
		}
	}
	return nil
}
