package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// different is how bunsen diff ends where there is a difference.
const different = 1

// programs is the table of whole processes. Its goal is that of a reviewer who waits: a second on two cores.
func (b *bench) programs(ctx context.Context) (*measure.Table, error) {
	t := &measure.Table{Title: "The program", Explained: fmt.Sprintf("a repository of %d documents with 5 files of 300–600 bytes each", b.size), Of: "changed", Peak: true}
	repo, err := b.repository(ctx, b.size)
	if err != nil {
		return nil, err
	}
	warm := b.folder("cache")
	if _, err := b.diff(ctx, repo, "main", warm); err != nil {
		return nil, err
	}
	goal := measure.Goal{CPU: time.Second, Wall: time.Second}
	add := func(what string, size int, goal measure.Goal, once func(run int) (branch, cache string)) error {
		s, err := b.limit.Median(func(run int) (measure.Sample, error) {
			branch, cache := once(run)
			return b.diff(ctx, repo, branch, cache)
		})
		t.Add(measure.Row{What: what, Size: size, Sample: s, Goal: goal})
		return err
	}
	if err := add("cold", 1, measure.Goal{}, func(run int) (string, string) { return branch(1, run), b.folder("cache") }); err != nil {
		return nil, err
	}
	if err := add("cold, with no cache at all", 1, measure.Goal{}, func(run int) (string, string) { return branch(1, run), "off" }); err != nil {
		return nil, err
	}
	if err := add("warm, nothing changed", 0, goal, func(int) (string, string) { return "none", warm }); err != nil {
		return nil, err
	}
	for _, n := range b.changesFor(b.size) {
		if err := add("warm", n, goal, func(run int) (string, string) { return branch(n, run), warm }); err != nil {
			return nil, err
		}
	}
	return t, add("warm, one of worker's for 9 pools", 1, goal, func(run int) (string, string) { return worker(run), warm })
}

// diff runs the program once.
func (b *bench) diff(ctx context.Context, repo, branch, cache string) (measure.Sample, error) {
	cmd := exec.CommandContext(ctx, b.binary, "diff", "main", branch, "--output", "markdown")
	cmd.Dir = repo
	cmd.Env = append(os.Environ(), "BUNSEN_CACHE="+cache, "TMPDIR="+b.dir)
	return measure.Process(cmd, different)
}
