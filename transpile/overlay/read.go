package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Keeping is a file system that keeps what it has read, so that nobody reads or sums it twice.
type Keeping interface {
	// Kept returns a file's contents, which nobody may change, and their sha256 in hex.
	Kept(file string) ([]byte, string, error)
}

// contents of a file, and their digest.
func contents(fsys fs.FS, file string) ([]byte, string, error) {
	if k, ok := fsys.(Keeping); ok {
		return k.Kept(file)
	}
	src, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, "", err
	}
	return src, sum(src), nil
}

// Digest returns the sha256, in hex, of a file's contents, or of a directory's listing.
func Digest(fsys fs.FS, name string) (string, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", name, err)
	}
	if info.IsDir() {
		names, err := listing(fsys, name)
		if err != nil {
			return "", err
		}
		return sum([]byte(strings.Join(names, "\n"))), nil
	}
	_, digest, err := contents(fsys, name)
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", name, err)
	}
	return digest, nil
}

// listing returns the names in a directory in lexical order, directories with a slash.
func listing(fsys fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", dir, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
		if e.IsDir() {
			names[i] += "/"
		}
	}
	return names, nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// keyOf is a digest of words.
func keyOf(words ...string) string {
	var b []byte
	for _, w := range words {
		b = strconv.AppendInt(b, int64(len(w)), 10)
		b = append(append(b, ':'), w...)
	}
	return sum(b)
}

// tooLarge is a file's size, where it is more than is read.
type tooLarge int64

// Error says so, and what to do.
func (n tooLarge) Error() string {
	return fmt.Sprintf("the file has %d bytes, more than the %d that are read; keep large contents in a file of their own and name it with `local:`", n, maxFileBytes)
}

// unreadable says that a file, which is named somewhere, cannot be read.
func unreadable(from origin.Pos, file, name string, err error) origin.Finding {
	var n tooLarge
	if errors.As(err, &n) {
		return fatal(origin.Pos{File: file}, "too-large", "%v", n)
	}
	return fatal(from, "missing", "%q: %s", name, plain(err))
}

// plain says why a file cannot be read, without the operating system's words for it.
func plain(err error) string {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file or directory in this repository"
	case errors.As(err, &pe):
		return pe.Err.Error()
	default:
		return err.Error()
	}
}

// errDirectory is what reading a directory gives.
var errDirectory = errors.New("it is a directory, not a file")

// tree is the file system of a build, and what the build has read of it.
type tree struct {
	fs    fs.FS
	reads map[string]string // with digests
	bytes int
}

// read returns a file's contents and notes that the build depends on it.
func (t *tree) read(file string) ([]byte, error) {
	src, digest, err := readFile(t.fs, file)
	if err != nil {
		return nil, err
	}
	if _, again := t.reads[file]; !again {
		t.bytes += len(src)
	}
	if t.bytes > maxBytes {
		return nil, fmt.Errorf("the build reads more than %d bytes, which is too much", maxBytes)
	}
	t.reads[file] = digest
	return src, nil
}

func readFile(fsys fs.FS, file string) (src []byte, digest string, err error) {
	info, err := fs.Stat(fsys, file)
	switch {
	case err != nil:
		return nil, "", err
	case info.IsDir():
		return nil, "", errDirectory
	case info.Size() > maxFileBytes:
		return nil, "", tooLarge(info.Size())
	}
	src, digest, err = contents(fsys, file)
	if len(src) > maxFileBytes { // it grew
		return nil, "", tooLarge(len(src))
	}
	return src, digest, err
}
