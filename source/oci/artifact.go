package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"

	"github.com/bunsen-os/bunsen/source"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// artifactType is the type of the artifacts that Pack creates. Tree accepts any type.
const artifactType = "application/vnd.bunsen.config.v1"

// Artifact is the files of one commit, as a registry stores them.
type Artifact struct {
	// Files is the number of files.
	Files    int
	layer    []byte
	manifest []byte
}

// Pack creates the artifact of a commit from its files. The annotations of an Artifact name the commit's revision, URL,
// author, subject and time. The same files and commit give the same bytes. Pack returns an error for a file system that
// cannot be read, or has no file.
func Pack(files fs.FS, c source.Commit) (Artifact, error) {
	var layer bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&layer, gzip.BestCompression)
	if err != nil {
		return Artifact{}, fmt.Errorf("packing the files: %w", err)
	}
	n, err := WriteArchive(zipped, files)
	if err := errors.Join(err, zipped.Close()); err != nil {
		return Artifact{}, fmt.Errorf("packing the files: %w", err)
	}
	if n == 0 {
		return Artifact{}, errors.New("packing the files: there are none")
	}
	content := ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(layer.Bytes()),
		Size: int64(layer.Len()),
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: artifactType,
		Config:       ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{content}, Annotations: notesOf(c),
	})
	if err != nil {
		return Artifact{}, fmt.Errorf("writing the manifest: %w", err)
	}
	return Artifact{Files: n, layer: layer.Bytes(), manifest: manifest}, nil
}

// notesOf returns the annotations from which describe reads a commit.
func notesOf(c source.Commit) map[string]string {
	notes := map[string]string{
		ocispec.AnnotationRevision:    c.Revision().String(),
		ocispec.AnnotationSource:      c.URL,
		ocispec.AnnotationCreated:     c.Time.UTC().Format(time.RFC3339),
		ocispec.AnnotationDescription: c.Subject,
		ocispec.AnnotationAuthors:     c.Author,
	}
	for key, value := range notes {
		if value == "" {
			delete(notes, key)
		}
	}
	return notes
}

// Digest returns the digest of the artifact's manifest, `sha256:<hex>`.
func (a Artifact) Digest() string { return digest.FromBytes(a.manifest).String() }

// Size returns the size of the packed files, in bytes.
func (a Artifact) Size() int { return len(a.layer) }

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
