package copies

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// copy makes sure that the directory has a verified copy of a file, and returns its size.
func (c *Copies) copy(ctx context.Context, name string) (int64, error) {
	if size, ok := c.verify(name); ok {
		return size, nil
	}
	is := &v1alpha1.Content{}
	if err := c.api.get(ctx, "contents", name, is); err != nil {
		return 0, err
	}
	if is.Name != name {
		return 0, fmt.Errorf("reading Content %s: the API server answers with %q", name, is.Name)
	}
	if err := contentstore.Check(is); err != nil {
		return 0, err
	}
	if err := c.makeRoom(is.Spec.Size); err != nil {
		return 0, err
	}
	return is.Spec.Size, c.write(ctx, is)
}

// verify reports whether an earlier process left a copy with the right hash, and removes any other file of that name.
func (c *Copies) verify(name string) (int64, bool) {
	f, err := os.Open(c.path(name))
	if err != nil {
		return 0, false
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha512.New()
	size, err := io.Copy(sum, f)
	if err == nil && hashOf(sum) == name {
		return size, true
	}
	os.Remove(c.path(name)) //nolint:errcheck,gosec // write replaces it
	return 0, false
}

func hashOf(sum hash.Hash) string { return "sha512-" + hex.EncodeToString(sum.Sum(nil)) }

// write writes a file chunk by chunk. The file gets its name only after its hash was verified.
func (c *Copies) write(ctx context.Context, is *v1alpha1.Content) (err error) {
	f, err := os.CreateTemp(c.Dir, tempPrefix) // the mode is 0600
	if err != nil {
		return fmt.Errorf("copying Content %s: %w", is.Name, err)
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), c.path(is.Name))
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	sum, left := sha512.New(), is.Spec.Size
	for _, name := range is.Spec.Chunks {
		plain, err := c.chunk(ctx, name)
		if err != nil {
			return err
		}
		if want := min(left, contentstore.ChunkSize); int64(len(plain)) != want {
			return fmt.Errorf("reading Content %s: its chunk %s has %d bytes instead of %d", is.Name, name, len(plain), want)
		}
		left -= int64(len(plain))
		sum.Write(plain) //nolint:errcheck,gosec // it never fails
		if _, err := f.Write(plain); err != nil {
			return fmt.Errorf("copying Content %s: %w", is.Name, err)
		}
	}
	if hashOf(sum) != is.Name {
		return fmt.Errorf("reading Content %s: its chunks do not have the hash that is its name: delete it, and the controller creates it again", is.Name)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("copying Content %s: %w", is.Name, err)
	}
	return nil
}

// chunk reads one chunk and verifies it.
func (c *Copies) chunk(ctx context.Context, name string) ([]byte, error) {
	is := &v1alpha1.ContentChunk{}
	if err := c.api.get(ctx, "contentchunks", name, is); err != nil {
		return nil, err
	}
	if is.Name != name {
		return nil, fmt.Errorf("reading ContentChunk %s: the API server answers with %q", name, is.Name)
	}
	return contentstore.Plain(is)
}

// largestReserve limits the part of the disk that stays free.
const largestReserve = 1 << 30

// makeRoom removes the copies that were used the longest time ago, until there is room for another file.
func (c *Copies) makeRoom(size int64) error {
	if size > c.Max {
		return fmt.Errorf("the file has %d MiB, and the server's copies of files have at most %d MiB: set a larger --content-cache", size>>20, c.Max>>20)
	}
	if err := c.removeOldest(size); err != nil {
		return err
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(c.Dir, &disk); err != nil {
		return fmt.Errorf("reading the free space of %s: %w", c.Dir, err)
	}
	free, all := int64(disk.Bavail)*disk.Bsize, int64(disk.Blocks)*disk.Bsize
	if reserve := min(all/10, largestReserve); free-size < reserve {
		return fmt.Errorf("the disk of %s is full: %d MiB are free, %d MiB are needed, and %d MiB stay free", c.Dir, free>>20, size>>20, reserve>>20)
	}
	return nil
}

// removeOldest removes copies until all copies and a file of a size are within the limit. Requests that read a removed copy
// continue.
func (c *Copies) removeOldest(size int64) error {
	files, err := os.ReadDir(c.Dir)
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.Dir, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	sizes, sum := map[string]int64{}, size
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
			if machineconfig.IsStoredHash(f.Name()) && c.pending[f.Name()] == nil {
				sizes[f.Name()] = info.Size()
			}
		}
	}
	for sum > c.Max && len(sizes) > 0 {
		name := c.oldestOf(sizes)
		if err := os.Remove(filepath.Join(c.Dir, name)); err != nil {
			return fmt.Errorf("removing a copy: %w", err)
		}
		sum -= sizes[name]
		delete(sizes, name)
		delete(c.known, name)
	}
	return nil
}

// oldestOf returns the copy that was used the longest time ago. A copy that no request of this process used is the oldest.
func (c *Copies) oldestOf(sizes map[string]int64) (oldest string) {
	for name := range sizes {
		a, b := c.known[name], c.known[oldest]
		switch {
		case oldest == "", a == nil && b != nil, a != nil && b != nil && a.used.Before(b.used):
			oldest = name
		case a == nil && b == nil && name < oldest:
			oldest = name
		}
	}
	return oldest
}
