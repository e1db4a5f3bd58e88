package oci

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/bunsen-os/bunsen/source"
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
