package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/peers"
)

// others go the way from a commit to configs with git, Butane and the merge of the original.
type others struct {
	*bench
	repo   string
	corpus corpus.Repository
	// tree is the working tree of the last clone.
	tree string
}

// clone begins from nothing.
func (o *others) clone(ctx context.Context) (measure.Sample, error) {
	tree, err := o.folder("clone")
	if err != nil {
		return measure.Sample{}, err
	}
	o.tree = tree
	return o.built(ctx, fmt.Sprintf("git clone -q --depth 1 --branch main file://%s %s", o.repo, tree))
}

// fetch fetches a branch into the tree.
func (o *others) fetch(ctx context.Context, branch string) (measure.Sample, error) {
	return o.built(ctx, fmt.Sprintf("cd %s; git fetch -q --depth 1 origin %s; git reset -q --hard FETCH_HEAD", o.tree,
		branch))
}

// built runs a script of git commands and builds what is then in the tree.
func (o *others) built(ctx context.Context, script string) (measure.Sample, error) {
	all, err := measure.Process(exec.CommandContext(ctx, "sh", "-ec", script+"; echo done"))
	if err != nil {
		return all, err
	}
	rest, err := measure.Of(o.build)
	all.Cost = all.Plus(rest.Cost)
	return all, err
}

// build reads, translates and merges the documents of each pool.
func (o *others) build() error {
	pools, err := filepath.Glob(filepath.Join(o.tree, "pools", "*"))
	if err != nil || len(pools) == 0 {
		return fmt.Errorf("looking for pools in %s: %d, %w", o.tree, len(pools), err)
	}
	for _, pool := range pools {
		var texts [][]byte
		if err := fs.WalkDir(os.DirFS(pool), ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(filepath.Join(pool, name))
			texts = append(texts, text)
			return err
		}); err != nil {
			return err
		}
		if _, err := peers.Build(filepath.Base(pool), texts...); err != nil {
			return err
		}
	}
	return nil
}
