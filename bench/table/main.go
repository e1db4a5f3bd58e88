package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// program is one of bench/.
type program struct {
	name string
	// quick are flags for sizes with which all programs together take less than 20 minutes on two cores.
	quick []string
}

// programs are all of them, in the order in which they are read. A test compares the list with the directories.
var programs = []program{
	{"render", []string{"-sizes", "100,400"}},
	{"transpile", nil},
	{"build", nil},
	{"commit", []string{"-sizes", "10,100", "-objects", "500"}},
	{"diff", nil},
	{"adopt", nil},
	{"apply", nil},
	{"rollout", []string{"-nodes", "100,500"}},
	{"nodes", []string{"-sizes", "100,500"}},
	{"serve", []string{"-rounds", "3", "-machines", "1000", "-behind-one", "1000"}},
	{"fetch", nil},
	{"sources", []string{"-sources", "100", "-dead", "10", "-shared", "10", "-time", "1m", "-pushes", "5", "-hooks", "50"}},
	{"console", []string{"-nodes", "1000", "-readers", "20", "-users", "3", "-events", "10", "-pause", "1s"}},
	{"editor", nil},
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var root, file, page string
	var quick bool
	f := flag.NewFlagSet("table", flag.ContinueOnError)
	f.StringVar(&root, "root", ".", "folder of the checkout")
	f.StringVar(&file, "results", "", "the file of the figures; empty: bin/bench.json of the checkout")
	f.StringVar(&page, "page", "", "write this page from the figures of earlier runs, and run nothing")
	f.BoolVar(&quick, "quick", false, "run smaller sizes, all programs in less than 20 minutes")
	if err := f.Parse(args); err != nil {
		return err
	}
	if file == "" {
		file = filepath.Join(root, "bin", "bench.json")
	}
	r, err := readResults(file)
	if err != nil {
		return err
	}
	if page != "" {
		text, err := r.page()
		if err != nil {
			return err
		}
		return os.WriteFile(page, []byte(text), 0o644)
	}
	todo, err := named(f.Args())
	if err != nil {
		return err
	}
	if !quick {
		for i := range todo {
			todo[i].quick = nil
		}
	}
	dir, err := os.MkdirTemp("", "bunsen-bench-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a remaining temporary directory does no harm
	b := &bench{root: root, dir: dir, out: out}
	if err := b.build(ctx, todo); err != nil {
		return err
	}
	for _, p := range todo {
		r.Programs[p.name] = b.measure(ctx, p)
		if err := r.write(file); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	if err := r.print(out); err != nil {
		return err
	}
	if failed := r.failed(todo); len(failed) > 0 {
		return fmt.Errorf("not run to the end: %s", strings.Join(failed, ", "))
	}
	return nil
}

// named returns the programs with these names, or all.
func named(names []string) (todo []program, err error) {
	for _, name := range names {
		i := slices.IndexFunc(programs, func(p program) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no bench/%s", name)
		}
		todo = append(todo, programs[i])
	}
	if len(names) == 0 {
		todo = slices.Clone(programs)
	}
	return todo, nil
}
