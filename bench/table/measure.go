package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/bench/measure"
)

// bench builds programs of a checkout into a directory, and runs them there.
type bench struct {
	root, dir string
	out       io.Writer
	// commit is that of the checkout when the programs were built; "" if git does not know it.
	commit string
}

// build compiles the programs before the first one runs, so that none is measured beside a compiler.
func (b *bench) build(ctx context.Context, todo []program) error {
	args := []string{"build", "-ldflags=-s -w", "-o", b.dir + string(filepath.Separator)}
	for _, p := range todo {
		args = append(args, "./bench/"+p.name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, text)
	}
	describe := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*")
	describe.Dir = b.root
	if text, err := describe.Output(); err == nil { // else it is no checkout of git
		b.commit = strings.TrimSpace(string(text))
	}
	return nil
}

// measure runs a program to its end. An error is part of the result, so that the programs after it run too.
func (b *bench) measure(ctx context.Context, p program) result {
	fmt.Fprintf(b.out, "\n==> bench/%s %s\n", p.name, strings.Join(p.quick, " "))
	figures := filepath.Join(b.dir, p.name+".figures")
	r := result{Host: measure.Host(), Flags: p.quick, Commit: b.commit, Load: measure.Load(), Began: time.Now()}
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, p.name), p.quick...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it stops what it started
	var complaint strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.root, b.out, io.MultiWriter(&complaint, b.out)
	cmd.Env = append(os.Environ(), measure.FiguresFile+"="+figures)
	err := cmd.Run()
	r.Took = time.Since(r.Began)
	if err == nil {
		r.Figures, err = measure.ReadFigures(figures)
	}
	if err != nil {
		r.Failed = cmp.Or(reason(complaint.String()), err.Error())
	}
	return r
}

// reason is the error that a program prints at its end, among what others logged.
func reason(complaint string) string {
	_, text, _ := strings.Cut("\n"+complaint, "\nerror: ")
	first, _, _ := strings.Cut(text, "\n")
	return first
}
