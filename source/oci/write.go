package oci

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
)

// WriteArchive writes the regular files of a file system to a tar archive, in lexical order of their paths, with the
// modes 0644 and 0755, and without owners and times. The same files always give the same bytes. Write returns the
// number of files.
func WriteArchive(to io.Writer, files fs.FS) (int, error) {
	w, n := tar.NewWriter(to), 0
	err := fs.WalkDir(files, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", p)
		}
		n++
		return add(w, p, info, files)
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return 0, fmt.Errorf("writing an archive: %w", err)
	}
	return n, nil
}

func add(w *tar.Writer, p string, info fs.FileInfo, files fs.FS) error {
	content, err := fs.ReadFile(files, p)
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: p, Size: int64(len(content)), Mode: 0o644}
	if info.Mode()&0o100 != 0 {
		h.Mode = 0o755
	}
	if err := w.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	_, err = w.Write(content)
	return err
}
