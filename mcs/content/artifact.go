package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxArtifact is the largest file of a registry in bytes. The daemon has the same limit.
const maxArtifact = 1 << 30

// copyArtifact makes sure that the directory has a verified copy of a file in a registry, and returns the name and the
// size of the copy. The digest of the artifact names a manifest, and the manifest names the digest of the file, which
// verifies the bytes. The name of the copy has this digest, so that the copy of an earlier process needs no registry.
func (c *Copies) copyArtifact(ctx context.Context, w wanted) (file string, size int64, err error) {
	if file, size, ok := c.earlier(w.key()); ok {
		return file, size, nil
	}
	layer, body, err := c.Registries.File(ctx, w.artifact)
	if err != nil {
		return "", 0, fmt.Errorf("reading %s: %w", w.name, err)
	}
	defer body.Close() //nolint:errcheck // only read
	if layer.Size < 0 || layer.Size > maxArtifact {
		return "", 0, fmt.Errorf("reading %s: its manifest says that it has %d bytes, and a file of a registry has "+
			"at most %d", w.name, layer.Size, maxArtifact)
	}
	hash := strings.Replace(layer.Digest, ":", "-", 1)
	file = w.key() + "." + hash
	err = c.write(file, layer.Size, func(to io.Writer) error {
		if err := copyBody(to, body, layer.Size, hash); err != nil {
			return fmt.Errorf("reading %s: %w", w.name, err)
		}
		return nil
	})
	return file, layer.Size, err
}

// copyBody copies a file of a registry, and verifies its size and its hash.
func copyBody(to io.Writer, body io.Reader, size int64, hash string) error {
	sum := newSum(hash)
	got, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(body, size+1))
	switch {
	case err != nil:
		return err
	case got > size:
		return fmt.Errorf("the registry sends more than the %d bytes that the manifest says", size)
	case got < size:
		return fmt.Errorf("the registry sends %d of %d bytes", got, size)
	case sum.String() != hash:
		return errors.New("the registry sends other bytes than the manifest names")
	}
	return nil
}

// earlier returns the verified copy with a key that an earlier process left.
func (c *Copies) earlier(key string) (file string, size int64, ok bool) {
	files, err := os.ReadDir(c.Dir)
	if err != nil {
		return "", 0, false
	}
	for _, f := range files {
		if _, hash, _ := strings.Cut(f.Name(), "."); keyOf(f.Name()) == key && hash != "" {
			if size, ok := verify(c.path(f.Name()), hash); ok {
				return f.Name(), size, true
			}
		}
	}
	return "", 0, false
}
