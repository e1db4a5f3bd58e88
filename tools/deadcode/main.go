package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// run returns errFound after it has printed the findings.
var errFound = errors.New("the unreachable functions differ from those in tools/deadcode/allowed.txt")

// programs maps the directory of a module to the pattern of its packages with programs.
var programs = map[string]string{".": "./cmd/...", "standalone": "./..."}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("deadcode", flag.ContinueOnError)
	root := flags.String("root", "..", "the repository's root")
	if err := flags.Parse(args); err != nil {
		return err
	}
	base, err := filepath.Abs(*root)
	if err != nil {
		return fmt.Errorf("finding the repository's root %q: %w", *root, err)
	}
	allowed, err := readAllowed(filepath.Join(base, "tools", "deadcode", "allowed.txt"))
	if err != nil {
		return err
	}
	var dead []function
	checked := 0
	for _, module := range slices.Sorted(maps.Keys(programs)) {
		found, count, err := unreachable(ctx, filepath.Join(base, module), programs[module])
		if err != nil {
			return fmt.Errorf("analysing the programs %s of module %q: %w", programs[module], module, err)
		}
		dead, checked = append(dead, found...), checked+count
	}
	problems := judge(base, dead, allowed)
	for _, problem := range problems {
		fmt.Fprintln(out, problem)
	}
	if len(problems) > 0 {
		return errFound
	}
	fmt.Fprintf(out, "deadcode: programs can reach all but %d of %d functions\n", len(dead), checked)
	return nil
}

// judge compares the unreachable functions with the allowed ones, and returns the differences.
func judge(base string, dead []function, allowed map[string]string) []string {
	stale := maps.Clone(allowed)
	var problems []string
	for _, f := range dead {
		if _, ok := allowed[f.name]; ok {
			delete(stale, f.name)
			continue
		}
		file, err := filepath.Rel(base, f.at.Filename)
		if err != nil {
			file = f.at.Filename
		}
		problems = append(problems, fmt.Sprintf("%s:%d: no program can reach %s: delete it, or add it to "+
			"tools/deadcode/allowed.txt with the reason", filepath.ToSlash(file), f.at.Line, f.name))
	}
	for _, name := range slices.Sorted(maps.Keys(stale)) {
		problems = append(problems, fmt.Sprintf("tools/deadcode/allowed.txt: a program can reach %s, or it does not "+
			"exist: delete the line", name))
	}
	return problems
}

// readAllowed reads lines of a function and a reason. A reason is mandatory.
func readAllowed(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading allowed functions: %w", err)
	}
	allowed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, " ")
		if len(strings.Fields(reason)) < 3 {
			return nil, fmt.Errorf("reading allowed functions %q: %q has no reason", file, name)
		}
		allowed[name] = reason
	}
	return allowed, nil
}
