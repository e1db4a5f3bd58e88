package contentstore

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ChunkSize is the number of bytes of a file in each chunk but the last.
const ChunkSize = 512 << 10

// MaxSize is the largest file in bytes. The CRD of Content has the same limit.
const MaxSize = 256 << 20

// NewChunk returns the object for a part of a file of at most ChunkSize bytes. The data is compressed if that makes the
// object smaller.
func NewChunk(plain []byte) (*v1alpha1.ContentChunk, error) {
	c := &v1alpha1.ContentChunk{
		ObjectMeta: metav1.ObjectMeta{Name: ChunkName(plain)},
		Spec:       v1alpha1.ContentChunkSpec{Data: plain},
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(plain); err != nil {
		return nil, fmt.Errorf("compressing ContentChunk %s: %w", c.Name, err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compressing ContentChunk %s: %w", c.Name, err)
	}
	if packed.Len() < len(plain) {
		c.Spec = v1alpha1.ContentChunkSpec{Gzip: true, Data: packed.Bytes()}
	}
	return c, nil
}

// ChunkName returns the name of the chunk with these bytes.
func ChunkName(plain []byte) string {
	sum := sha256.Sum256(plain)
	return "sha256-" + hex.EncodeToString(sum[:])
}

// Plain returns the bytes of a chunk. It is an error if they do not have the chunk's name, or are more than ChunkSize.
func Plain(c *v1alpha1.ContentChunk) ([]byte, error) {
	plain, err := unpacked(c.Spec)
	if err == nil && len(plain) > ChunkSize {
		err = fmt.Errorf("it has more than %d bytes", ChunkSize)
	}
	if err == nil && ChunkName(plain) != c.Name {
		err = errors.New("its data does not have the hash that is its name: delete it, and the controller creates " +
			"it again")
	}
	if err != nil {
		return nil, fmt.Errorf("reading ContentChunk %s: %w", c.Name, err)
	}
	return plain, nil
}

func unpacked(spec v1alpha1.ContentChunkSpec) ([]byte, error) {
	if !spec.Gzip {
		return spec.Data, nil
	}
	zip, err := gzip.NewReader(bytes.NewReader(spec.Data))
	if err != nil {
		return nil, fmt.Errorf("unpacking gzip: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(zip, ChunkSize+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking gzip: %w", err)
	}
	return plain, nil
}

// NewContent returns the object of a file, with the names of its chunks in order.
func NewContent(hash string, size int64, chunks []string) *v1alpha1.Content {
	return &v1alpha1.Content{ObjectMeta: metav1.ObjectMeta{Name: hash}, Spec: v1alpha1.ContentSpec{
		Size:   size,
		Chunks: chunks,
	}}
}

// NewArtifactContent returns the object of a file in an OCI registry, with its address.
func NewArtifactContent(hash string, size int64, artifact string) *v1alpha1.Content {
	return &v1alpha1.Content{ObjectMeta: metav1.ObjectMeta{Name: hash}, Spec: v1alpha1.ContentSpec{
		Size:     size,
		Artifact: artifact,
	}}
}

// checkArtifact returns an error if a Content in a registry is not valid.
func checkArtifact(c *v1alpha1.Content) error {
	if _, err := machineconfig.ParseArtifact(c.Spec.Artifact); err != nil || len(c.Spec.Chunks) > 0 {
		return fmt.Errorf("reading Content %s: its spec.artifact is not oci://REGISTRY/NAME@sha256:HEX, or it has "+
			"chunks too", c.Name)
	}
	if c.Spec.Size < 1 || c.Spec.Size > MaxSize {
		return fmt.Errorf("reading Content %s: it cannot have %d bytes", c.Name, c.Spec.Size)
	}
	return nil
}

// Check returns an error if the size of a Content does not match the number of its chunks, or if its name is not a
// hash. A reader checks the object first, so that neither a size nor a list of chunks makes it read without end.
func Check(c *v1alpha1.Content) error {
	if !machineconfig.IsStoredHash(c.Name) {
		return fmt.Errorf("reading Content %q: its name is not sha512-HEX", c.Name)
	}
	if c.Spec.Artifact != "" {
		return checkArtifact(c)
	}
	if size := c.Spec.Size; size < 1 || size > MaxSize || int64(len(c.Spec.Chunks)) != (size+ChunkSize-1)/ChunkSize {
		return fmt.Errorf("reading Content %s: it has %d chunks, and these cannot have %d bytes", c.Name,
			len(c.Spec.Chunks), size)
	}
	return nil
}
