package content

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/bunsen-os/bunsen/api/fault"
)

// verify reports whether an earlier process left a file with a hash, and returns its size. One with another hash is
// removed.
func verify(path, hash string) (int64, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close() //nolint:errcheck // only read
	sum := newSum(hash)
	size, err := io.Copy(sum, f)
	if err == nil && sum.String() == hash {
		return size, true
	}
	os.Remove(path) //nolint:errcheck,gosec // write replaces it
	return 0, false
}

// sum is a hash with a name.
type sum struct {
	hash.Hash
	function string
}

// newSum is for a hash in the form sha256-HEX or sha512-HEX.
func newSum(is string) sum {
	if strings.HasPrefix(is, "sha256-") {
		return sum{sha256.New(), "sha256-"}
	}
	return sum{sha512.New(), "sha512-"}
}

// String returns the hash of the bytes.
func (s sum) String() string { return s.function + hex.EncodeToString(s.Sum(nil)) }

// write gives a file its name only after fill has written and verified its bytes, and returned nil.
func (c *Copies) write(file string, size int64, fill func(io.Writer) error) (err error) {
	if err := c.makeRoom(size); err != nil {
		return err
	}
	defer c.release(size)
	f, err := os.CreateTemp(c.Dir, tempPrefix) // the mode is 0600
	if err != nil {
		return fmt.Errorf("writing a copy: %w", err)
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), c.path(file))
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	defer fault.Recover(&err) // before the file would get its name
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("writing a copy: %w", err)
	}
	return nil
}

// largestReserve limits the part of the disk that stays free.
const largestReserve = 1 << 30

// makeRoom removes the copies that were used the longest time ago, until there is room for another file, and reserves
// it.
func (c *Copies) makeRoom(size int64) error {
	if size > c.Max {
		return fmt.Errorf("the file has %d MiB, and the server's copies of files have at most %d MiB: set a larger "+
			"--content-cache", size>>20, c.Max>>20)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.removeOldest(size); err != nil {
		return err
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(c.Dir, &disk); err != nil {
		return fmt.Errorf("reading the free space of %s: %w", c.Dir, err)
	}
	free, all := int64(disk.Bavail)*disk.Bsize, int64(disk.Blocks)*disk.Bsize
	if reserve := min(all/10, largestReserve); free-size-c.reserved < reserve {
		return fmt.Errorf("the disk of %s is full: %d MiB are free, %d MiB are needed, and %d MiB stay free", c.Dir,
			free>>20, (size+c.reserved)>>20, reserve>>20)
	}
	c.reserved += size
	return nil
}

func (c *Copies) release(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved -= size
}

// removeOldest removes copies until all, with those that are being written and a file of a size, are within the limit.
// Requests that read a removed one continue. The caller holds mu.
func (c *Copies) removeOldest(size int64) error {
	files, err := os.ReadDir(c.Dir)
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.Dir, err)
	}
	sizes, sum := map[string]int64{}, size+c.reserved
	for _, f := range files {
		info, err := f.Info()
		key := keyOf(f.Name())
		if err != nil || !info.Mode().IsRegular() || key == "" {
			continue // an unfinished copy is part of the reserved size
		}
		sum += info.Size()
		if !c.reading[key] {
			sizes[f.Name()] = info.Size()
		}
	}
	for sum > c.Max && len(sizes) > 0 {
		file := oldestOf(sizes, c.known)
		if err := os.Remove(c.path(file)); err != nil {
			return fmt.Errorf("removing a copy: %w", err)
		}
		sum -= sizes[file]
		delete(sizes, file)
		delete(c.known, keyOf(file))
	}
	return nil
}

// oldestOf returns the copy that was used the longest time ago, or by no request of this process.
func oldestOf(sizes map[string]int64, known map[string]*entry) (oldest string) {
	for file := range sizes {
		a, b := known[keyOf(file)], known[keyOf(oldest)]
		switch {
		case oldest == "", a == nil && b != nil, a != nil && b != nil && a.used.Before(b.used):
			oldest = file
		case a == nil && b == nil && file < oldest:
			oldest = file
		}
	}
	return oldest
}
