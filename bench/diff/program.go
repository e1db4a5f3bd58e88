package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// different is the exit code of bunsen diff if there is a difference.
const different = 1

// programs returns the table of whole processes. Its goal is one second on two cores, because a reviewer waits for the
// result.
func (b *bench) programs(ctx context.Context) (*measure.Table, error) {
	t := &measure.Table{Title: "The program", Explained: fmt.Sprintf("a repository of %d documents with 5 files of "+
		"300–600 bytes each", b.size), Of: "changed", Peak: true}
	repo, err := b.repository(ctx, b.size)
	if err != nil {
		return nil, err
	}
	goal := measure.Goal{CPU: time.Second, Wall: time.Second}
	add := func(what string, size int, branch func(run int) string) error {
		s, err := b.limit.Median(func(run int) (measure.Sample, error) { return b.diff(ctx, repo, branch(run)) })
		t.Add(measure.Row{What: what, Size: size, Sample: s, Goal: goal})
		return err
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

// diff runs the program once.
func (b *bench) diff(ctx context.Context, repo, branch string) (measure.Sample, error) {
	cmd := exec.CommandContext(ctx, b.binary, "diff", "main", branch, "--output", "markdown")
	cmd.Dir = repo
	cmd.Env = append(os.Environ(), "TMPDIR="+b.dir)
	return measure.Process(cmd, different)
}
