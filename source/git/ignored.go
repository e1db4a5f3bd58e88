package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// Ignores reports whether git leaves a file of the work tree out of commits: a .gitignore of the repository matches it,
// and the index does not have it. The name is a path from the top of the work tree.
func (l Location) Ignores(name string) (bool, error) {
	if l.WorkTree == "" {
		return false, nil
	}
	entries, err := l.index()
	if err != nil {
		return false, fmt.Errorf("reading the index of %s: %w", l.WorkTree, err)
	}
	for _, e := range entries {
		if e.Name == name {
			return false, nil
		}
	}
	parts := strings.Split(name, "/")
	all, err := patterns(filepath.Join(l.CommonDir, "info", "exclude"), nil)
	if err != nil {
		return false, err
	}
	for i := range parts {
		list := filepath.Join(l.WorkTree, path.Join(parts[:i]...), ".gitignore")
		if info, err := os.Lstat(list); err == nil && !info.Mode().IsRegular() {
			continue // as git does with a link
		}
		more, err := patterns(list, parts[:i])
		if err != nil {
			return false, err
		}
		all = append(all, more...)
	}
	return gitignore.NewMatcher(all).Match(parts, false), nil
}

// patterns reads a file of patterns, which count in a folder.
func patterns(file string, folder []string) (all []gitignore.Pattern, err error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading which files git ignores: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, gitignore.ParsePattern(line, slices.Clone(folder)))
		}
	}
	return all, nil
}
