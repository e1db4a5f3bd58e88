package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// different is the exit code of bunsen diff if there is a difference.
const different = 1

// programs returns the table of whole processes. Its goal is one second on two cores, because a reviewer waits for the
// result.
func (b *bench) programs(ctx context.Context) (*measure.Table, error) {
	t := &measure.Table{Title: "The program", Explained: fmt.Sprintf("a repository of %d documents with 5 files of "+
		"300–600 bytes each", b.size), Of: "changed documents", Peak: true}
	repo, err := b.repository(ctx, b.size)
	if err != nil {
		return nil, err
	}
	goal := measure.Goal{CPU: time.Second, Wall: time.Second}
	add := func(what string, size int, branch func(run int) string) error {
		for _, stored := range []bool{false, true} {
			if stored { // The first run stores what the others find.
				what += ", stored results"
				if _, err := b.diff(ctx, repo, branch(0), stored); err != nil {
					return err
				}
			}
			both, err := b.limit.Together(func(run int) (measure.Sample, error) {
				return b.diff(ctx, repo, branch(run), stored)
			}, func(run int) (measure.Sample, error) { return archive(ctx, repo, branch(run)) })
			if err != nil {
				return err
			}
			t.Add(measure.Row{
				What: what, Size: size, Sample: both[0], Goal: goal,
				Peers: []measure.Peer{measure.Took("git archive of both", both[1].CPU)},
			})
		}
		return nil
	}
	if err := add("nothing changed", 0, func(int) string { return "none" }); err != nil {
		return nil, err
	}
	for _, n := range b.changesFor(b.size) {
		if err := add("changed", n, func(run int) string { return branch(n, run) }); err != nil {
			return nil, err
		}
	}
	return t, add("one of worker's for 9 pools", 1, worker)
}

// diff runs the program once, with the results of earlier runs or without any.
func (b *bench) diff(ctx context.Context, repo, branch string, stored bool) (measure.Sample, error) {
	cmd := exec.CommandContext(ctx, b.binary, "diff", "main", branch, "--output", "markdown")
	if !stored {
		cmd.Args = append(cmd.Args, "--no-cache")
	}
	cmd.Dir = repo
	cmd.Env = append(os.Environ(), "TMPDIR="+b.dir, "XDG_CACHE_HOME="+filepath.Join(b.dir, "cache"))
	return measure.Process(cmd, different)
}

// archive is the floor: git reads all files of both commits.
func archive(ctx context.Context, repo, branch string) (all measure.Sample, err error) {
	for _, revision := range []string{"main", branch} {
		s, err := measure.Process(exec.CommandContext(ctx, "git", "-C", repo, "archive", revision))
		if err != nil {
			return all, err
		}
		all.Cost, all.Runs = all.Plus(s.Cost), 1
	}
	return all, nil
}
