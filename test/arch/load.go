package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Load parses every Go file below a root. It skips folders that the go command ignores (testdata, names that begin with
// a dot or an underscore) and the build output in bin. A folder with its own go.mod begins another module.
func Load(root fs.FS) (Repo, error) {
	module, err := modulePath(root)
	if err != nil {
		return Repo{}, err
	}
	l := loader{root: root, fset: token.NewFileSet(), byDir: map[string]*Package{}}
	if err := fs.WalkDir(root, ".", l.visit); err != nil {
		return Repo{}, fmt.Errorf("reading the sources: %w", err)
	}
	repo := Repo{Module: module}
	for _, dir := range slices.Sorted(maps.Keys(l.byDir)) {
		repo.Packages = append(repo.Packages, *l.byDir[dir])
	}
	return repo, nil
}

// modulePath reads the module line of the root's go.mod.
func modulePath(root fs.FS) (string, error) {
	data, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		return "", fmt.Errorf("reading go.mod of the root: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("reading go.mod of the root: no module line")
}

type loader struct {
	root    fs.FS
	fset    *token.FileSet
	modules []string // directories with a go.mod, in walking order: parents first
	byDir   map[string]*Package
}

func (l *loader) visit(name string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case entry.IsDir():
		if name != "." && ignored(name) {
			return fs.SkipDir
		}
		if _, err := fs.Stat(l.root, path.Join(name, "go.mod")); err == nil {
			l.modules = append(l.modules, name)
		}
		return nil
	case path.Ext(name) == ".go":
		return l.file(name)
	}
	return nil
}

func ignored(dir string) bool {
	base := path.Base(dir)
	return dir == "bin" || base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") ||
		strings.HasPrefix(base, "_")
}

func (l *loader) file(name string) error {
	data, err := fs.ReadFile(l.root, name)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(l.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parsing: %w", err)
	}
	dir := path.Dir(name)
	p := l.byDir[dir]
	if p == nil {
		p = &Package{Dir: dir, Module: l.moduleOf(dir), Name: strings.TrimSuffix(syntax.Name.Name, "_test")}
		l.byDir[dir] = p
	}
	p.Files = append(p.Files, File{
		Path:      name,
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(syntax),
		Source:    data,
		Lines:     bytes.Count(data, []byte("\n")),
		Syntax:    syntax,
		Fset:      l.fset,
	})
	return nil
}

// moduleOf returns the innermost module around a directory.
func (l *loader) moduleOf(dir string) string {
	found := "."
	for _, m := range l.modules {
		if dir == m || strings.HasPrefix(dir, m+"/") {
			found = m
		}
	}
	return found
}
