package documents

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// Keeping is a file system that stores the contents and the digests of the files that it has read.
type Keeping interface {
	// Kept returns a file's contents, which the caller must not change, and their sha256 in hex.
	Kept(file string) ([]byte, string, error)
}

// contents returns the contents of a file and their digest.
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

// Listing returns the names in a directory in lexical order, directories with a slash.
func Listing(fsys fs.FS, dir string) ([]string, error) {
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

// tooLarge is the error for a file that is larger than the limit. The value of a tooLarge is the size of the file.
type tooLarge int64

// Error says what to do instead of reading the large file.
func (n tooLarge) Error() string {
	return fmt.Sprintf("the file has %d bytes, and Bunsen reads at most %d. Move large contents to another file, and "+
		"name that file with `local:`", n, MaxBytes)
}

// Unreadable returns the finding for a reference to a file that cannot be read.
func Unreadable(from origin.Pos, file, name string, err error) origin.Finding {
	var n tooLarge
	if errors.As(err, &n) {
		return origin.Errorf(origin.Pos{File: file}, "too-large", "%v", n)
	}
	return origin.Errorf(from, "missing", "%q: %s", name, ReadProblem(err))
}

// ReadProblem says why a file cannot be read, without the path of the operating system's error.
func ReadProblem(err error) string {
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

// errDirectory is the error of reading a directory as a file.
var errDirectory = errors.New("it is a directory, not a file")

// maxBytes is the limit for all files that one build reads, in bytes.
const maxBytes = 256 << 20

// Files are the files of one build. The build reads each file once.
type Files struct {
	FS fs.FS
	// Cache has what the files of earlier builds declare; nil for none.
	Cache Cache
	// Reads are the files that the build read, with their digests.
	Reads map[string]string
	// Bytes is the total size of the files in Reads.
	Bytes int
	// Declared are the files that declare documents, in the order in which they were read.
	Declared []*File
	Findings []origin.Finding
	known    map[string]*File
}

// NewFiles returns the Files of a build that has not read any file yet.
func NewFiles(fsys fs.FS) *Files {
	return &Files{FS: fsys, Reads: map[string]string{}, known: map[string]*File{}}
}

// Add adds findings.
func (all *Files) Add(found ...origin.Finding) { all.Findings = append(all.Findings, found...) }

// Reference is an entry of a kustomization that names a file or a directory.
type Reference struct {
	// Path is the path in the repository; Written is the path as the kustomization spells it.
	Path, Written string
	At            origin.Pos
	// IsFile is true if it is certain that the path is a file.
	IsFile bool
}

// Read returns a file's contents and records that the build depends on it.
func (all *Files) Read(file string) ([]byte, error) {
	src, digest, err := readFile(all.FS, file)
	if err != nil {
		return nil, err
	}
	if _, again := all.Reads[file]; !again {
		all.Bytes += len(src)
	}
	if all.Bytes > maxBytes {
		return nil, fmt.Errorf("the build reads more than %d bytes, which is too much", maxBytes)
	}
	all.Reads[file] = digest
	return src, nil
}

// IsDirectory reports whether a reference names a directory.
func (all *Files) IsDirectory(r Reference) bool {
	if r.IsFile || all.known[r.Path] != nil {
		return false
	}
	info, err := fs.Stat(all.FS, r.Path)
	return err == nil && info.IsDir()
}

func readFile(fsys fs.FS, file string) (src []byte, digest string, err error) {
	info, err := fs.Stat(fsys, file)
	switch {
	case err != nil:
		return nil, "", err
	case info.IsDir():
		return nil, "", errDirectory
	case info.Size() > MaxBytes:
		return nil, "", tooLarge(info.Size())
	}
	src, digest, err = contents(fsys, file)
	if len(src) > MaxBytes { // The file may have grown after its size was checked.
		return nil, "", tooLarge(len(src))
	}
	return src, digest, err
}
