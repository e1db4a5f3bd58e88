package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/bunsen-os/bunsen/bench/corpus"
	"github.com/bunsen-os/bunsen/bench/measure"
)

const (
	pools    = 10
	mostRuns = 5
)

// bench measures in its own directory.
type bench struct {
	options
	dir  string
	next int
}

// documents have files as large as typical configuration files. A pool that includes worker's documents stays below the
// maximum size of an API object.
var documents = corpus.Documents{Files: 5, Low: 300, High: 600}

// repository creates a repository with so many documents and returns its directory. It has a branch for each size of a
// change and each run, so that no run uses the results of another.
func (b *bench) repository(ctx context.Context, fragments int) (dir string, err error) {
	c := corpus.Repository{
		Documents: documents, Fragments: fragments, PerPool: max(fragments/pools, 1),
		Pools: []string{"master", "worker"},
	}
	changes := []corpus.Change{{Branch: "none"}}
	for run := range mostRuns {
		for _, n := range b.change {
			if n <= fragments {
				changes = append(changes, corpus.Change{
					Branch: branch(n, run), Documents: n, Generation: run,
					First: fragments / 2,
				})
			}
		}
		changes = append(changes, corpus.Change{Branch: worker(run), Documents: 1, Generation: run, First: c.PerPool})
	}
	dir = b.folder("repo")
	return dir, c.Git(ctx, dir, changes)
}

func branch(documents, run int) string { return fmt.Sprintf("change-%d-%d", documents, run) }

// worker returns the branch that changes a document of pool worker.
func worker(run int) string { return fmt.Sprintf("worker-%d", run) }

// folder returns a new directory.
func (b *bench) folder(name string) string {
	b.next++
	return filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, b.next))
}

// changesFor returns the sizes of changes that fit into a repository.
func (b *bench) changesFor(fragments int) (out measure.Sizes) {
	for _, n := range b.change {
		if n <= fragments {
			out = append(out, n)
		}
	}
	return out
}
