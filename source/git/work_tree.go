package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// Committed knows which files of a work tree differ from what git has of them, although nobody changed them: git
// converts ends of lines, runs filters such as that of Git LFS, and ignores permissions where core.fileMode is false.
type Committed struct {
	repo    *gogit.Repository
	entries map[string]*index.Entry
	// written is when git wrote the index. A file of that time may have changed afterwards.
	written time.Time
}

// Committed reads the index of a work tree. It returns nil for a bare repository, and before the first `git add`.
func (l Location) Committed() (*Committed, error) {
	info, err := os.Stat(filepath.Join(l.GitDir, "index"))
	if l.WorkTree == "" || os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the index of %s: %w", l.WorkTree, err)
	}
	c := &Committed{entries: map[string]*index.Entry{}, written: info.ModTime()}
	if c.repo, err = l.Open(); err != nil {
		return nil, err
	}
	all, err := l.index()
	if err != nil {
		return nil, fmt.Errorf("reading the index of %s: %w", l.WorkTree, err)
	}
	for _, e := range all {
		c.entries[e.Name] = e
	}
	return c, nil
}

// maxCommitted is the largest content in bytes that Content reads: a keyword such as $Id$ may be long in git, and short
// in the work tree.
const maxCommitted = 64 << 20

// Content returns what git has of a file of the work tree that nobody changed since git wrote it, and whether it is
// executable there. The name is a path from the top of the work tree. The result ok is false if nobody knows that, or
// the file is the same as git's: then the file itself is what the next commit has. Content reads a file only to compare
// it.
func (c *Committed) Content(name string, info fs.FileInfo, file io.ReaderAt) (content []byte, executable, ok bool) {
	e := c.entries[name]
	if e == nil || e.Stage != 0 || int64(e.Size) != info.Size() || !e.ModifiedAt.Equal(info.ModTime()) {
		return nil, false, false
	}
	executable = e.Mode == filemode.Executable
	blob, err := c.repo.BlobObject(e.Hash)
	if err != nil || blob.Size > maxCommitted || blob.Size == info.Size() && executable == (info.Mode()&0o100 != 0) {
		return nil, false, false
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, false, false
	}
	defer r.Close() //nolint:errcheck // only read
	if content, err = io.ReadAll(r); err != nil {
		return nil, false, false
	}
	if !e.ModifiedAt.Before(c.written) {
		own := make([]byte, info.Size())
		if _, err := file.ReadAt(own, 0); err != nil ||
			!bytes.Equal(bytes.ReplaceAll(own, []byte("\r\n"), []byte("\n")), content) {
			return nil, false, false
		}
	}
	return content, executable, true
}

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
