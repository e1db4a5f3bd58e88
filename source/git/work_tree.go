package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// Limits of files of patterns in bytes: of one, and of all that are read for one state of a work tree.
const (
	maxPatterns    = 1 << 20
	maxAllPatterns = 8 << 20
)

// Ignored knows which files of a work tree git leaves out of commits. It reads the index once, and each .gitignore
// once, when it is first asked for a file that these are about: a later change of them is not seen.
type Ignored struct {
	at      Location
	tracked map[string]bool        // nil until it is read
	lists   map[string]patternList // by their file
	size    int64
}

type patternList struct {
	patterns []gitignore.Pattern
	err      error
}

// Ignored returns what knows the ignored files of a work tree as they are from now on.
func (l Location) Ignored() *Ignored { return &Ignored{at: l, lists: map[string]patternList{}} }

// Has reports whether git leaves a file out of commits: a .gitignore of the repository matches it, and the index does
// not have it. The name is a path from the top of the work tree. A list of patterns that is too large is an error,
// because it may say otherwise than the others.
func (i *Ignored) Has(name string) (bool, error) {
	if i.at.WorkTree == "" {
		return false, nil
	}
	if i.tracked == nil {
		entries, err := i.at.index()
		if err != nil {
			return false, fmt.Errorf("reading the index of %s: %w", i.at.WorkTree, err)
		}
		i.tracked = make(map[string]bool, len(entries))
		for _, e := range entries {
			i.tracked[e.Name] = true
		}
	}
	if i.tracked[name] {
		return false, nil
	}
	all, err := i.list(filepath.Join(i.at.CommonDir, "info", "exclude"), nil)
	if err != nil {
		return false, err
	}
	parts := strings.Split(name, "/")
	for n := range parts {
		folder := parts[:n:n]
		more, err := i.list(filepath.Join(i.at.WorkTree, filepath.Join(folder...), ".gitignore"), folder)
		if err != nil {
			return false, err
		}
		all = append(all[:len(all):len(all)], more...)
	}
	return gitignore.NewMatcher(all).Match(parts, false), nil
}

// list returns the patterns of a file, which count in a folder; nil for those that belong to no folder.
func (i *Ignored) list(file string, folder []string) ([]gitignore.Pattern, error) {
	l, known := i.lists[file]
	if !known {
		if l.patterns, l.err = i.read(file, folder); l.err != nil {
			l.err = fmt.Errorf("reading which files git ignores: %w", l.err)
		}
		i.lists[file] = l
	}
	return l.patterns, l.err
}

func (i *Ignored) read(file string, folder []string) (all []gitignore.Pattern, err error) {
	stat := os.Lstat // git follows no link to a .gitignore.
	if folder == nil {
		stat = os.Stat
	}
	info, err := stat(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if i.size += info.Size(); info.Size() > maxPatterns || i.size > maxAllPatterns {
		return nil, fmt.Errorf("%s is too large: at most %d KiB of patterns are read from a file, and %d KiB in all",
			file, maxPatterns>>10, maxAllPatterns>>10)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	folder = slices.Clone(folder)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, gitignore.ParsePattern(line, folder))
		}
	}
	return all, nil
}
