package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	update := flag.Bool("update", false, "write the counts to baseline.txt, if their sum does not grow")
	list := flag.Bool("list", false, "print every offence below the given paths")
	root := flag.String("root", "..", "the repository")
	flag.Parse()
	ok, err := run(os.Stdout, *root, *update, *list, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run checks the repository. run returns false if there are more offences than the baseline allows.
func run(w io.Writer, root string, update, list bool, paths []string) (bool, error) {
	found, err := checkTree(os.DirFS(root))
	if err != nil {
		return false, err
	}
	if list {
		for _, o := range found {
			if len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
				return o.file == p || strings.HasPrefix(o.file, p+"/")
			}) {
				fmt.Fprintln(w, o)
			}
		}
		return true, nil
	}
	file := filepath.Join(root, "tools/prose/baseline.txt")
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return false, err
	}
	allowed, err := parseBaseline(string(text))
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", file, err)
	}
	now := counts(found)
	if update {
		if len(allowed) > 0 && now.sum() > allowed.sum() {
			return false, fmt.Errorf("%d offences, and the baseline has %d: it may only shrink", now.sum(),
				allowed.sum())
		}
		return true, os.WriteFile(file, []byte(now.String()), 0o644)
	}
	return report(w, found, now, allowed), nil
}

// report prints the offences of each file that has more offences than the baseline allows.
func report(w io.Writer, found []offence, now, allowed baseline) bool {
	ok := true
	for _, o := range found {
		if !now.allows(o.file, allowed) {
			fmt.Fprintln(w, o)
			ok = false
		}
	}
	switch {
	case !ok:
		fmt.Fprintln(w, "rewrite the new sentences; the rules are in docs/writing.md")
	case now.String() != allowed.String():
		fmt.Fprintf(w, "%d offences, and the baseline has %d: go run -C tools ./prose -update\n", now.sum(),
			allowed.sum())
	}
	return ok
}

// checkTree reads every file to which the rules apply.
func checkTree(tree fs.FS) ([]offence, error) {
	var out []offence
	err := fs.WalkDir(tree, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if p != "." && skipDir(p, e.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		read := reader(p)
		if read == nil || !e.Type().IsRegular() {
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		blocks, err := read(string(text))
		if err != nil {
			return fmt.Errorf("reading %s: %w", p, err)
		}
		for _, b := range blocks {
			out = append(out, check(p, b)...)
		}
		return nil
	})
	return out, err
}

func skipDir(p, name string) bool {
	return strings.HasPrefix(name, ".") || name == "testdata" || p == "bin" || p == "dist" || p == "my-config"
}

// reader returns the function that reads the texts of a file, or nil.
func reader(p string) func(string) ([]block, error) {
	switch ext := path.Ext(p); {
	case ext == ".md":
		return markdown
	case strings.HasPrefix(p, "test/") || strings.HasPrefix(p, "bench/"):
		return nil
	case ext == ".go" && !strings.HasSuffix(p, "_test.go") && !strings.HasPrefix(path.Base(p), "zz_generated"):
		return literals
	case ext == ".yaml" && strings.HasPrefix(p, "config/") && !strings.HasPrefix(p, "config/crd/"),
		(ext == ".yaml" || ext == ".yml" || ext == ".bu") && strings.HasPrefix(p, "examples/"):
		return descriptions
	}
	return nil
}
