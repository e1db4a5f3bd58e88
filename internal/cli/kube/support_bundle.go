package kube

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	// MaxBundleFile is the size of the largest file of a bundle. Of a longer file, the bundle has only the last part.
	MaxBundleFile = 4 << 20
	// maxTotal is the size of all files of a bundle together, before compression.
	maxTotal = 200 << 20
)

// Bundle has the files of a support bundle.
type Bundle struct {
	// Name is the directory of all files in the archive.
	Name string
	// At is the time of all files.
	At time.Time

	files   map[string][]byte
	leftOut []string
	total   int
}

// Add adds a masked file. Add shortens a file that is too long, and leaves the file out if the bundle is full.
func (b *Bundle) Add(name string, content []byte) {
	if len(content) > MaxBundleFile {
		b.LeaveOut(name, fmt.Sprintf("only its last %d of %d bytes are here", MaxBundleFile, len(content)))
		content = content[len(content)-MaxBundleFile:]
		if line := strings.IndexByte(string(content), '\n'); line >= 0 {
			// The beginning of a cut line is missing, and with it the word by which a secret is recognized.
			content = content[line+1:]
		}
	}
	if b.total+len(content) > maxTotal {
		b.LeaveOut(name, "the bundle is full")
		return
	}
	if b.files == nil {
		b.files = map[string][]byte{}
	}
	b.total += len(content)
	b.files[name] = content
}

// LeaveOut records that a file or an object is not in the bundle, and why.
func (b *Bundle) LeaveOut(what, why string) {
	b.leftOut = append(b.leftOut, MaskedText(what+": "+strings.ReplaceAll(why, "\n", " ")))
}

// Len returns the number of files.
func (b *Bundle) Len() int { return len(b.files) }

// Write writes the archive with the files in the order of their names, and left-out.txt as the last one.
func (b *Bundle) Write(w io.Writer) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		if err := b.write(archive, name, b.files[name]); err != nil {
			return err
		}
	}
	slices.Sort(b.leftOut)
	list := cmp.Or(strings.Join(b.leftOut, "\n"), "nothing") + "\n"
	if err := b.write(archive, "left-out.txt", []byte(list)); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	if err := zip.Close(); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

func (b *Bundle) write(archive *tar.Writer, name string, content []byte) error {
	head := &tar.Header{
		Name: path.Join(b.Name, name), Mode: 0o600, Size: int64(len(content)),
		ModTime: b.At.Truncate(time.Second), Format: tar.FormatPAX,
	}
	if err := archive.WriteHeader(head); err != nil {
		return fmt.Errorf("writing %s to the archive: %w", name, err)
	}
	if _, err := archive.Write(content); err != nil {
		return fmt.Errorf("writing %s to the archive: %w", name, err)
	}
	return nil
}
