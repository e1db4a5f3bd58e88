package objects

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/renameio/v2/maybe"
)

// unusedAfter is after how long the cache removes an unused folder, for example one of a deleted GitSource.
const unusedAfter = 30 * 24 * time.Hour

// Cache is a directory with one Folder for each repository. Only one process may use the directory. Cache is safe for
// concurrent use.
type Cache struct {
	dir string

	mu    sync.Mutex
	locks map[string]chan struct{}
}

// NewCache opens a cache in a directory that belongs to this user alone. NewCache removes folders that were not used
// for 30 days before now.
func NewCache(dir string, now time.Time) (*Cache, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the cache of git's objects: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < unusedAfter {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("removing unused objects of git: %w", err)
		}
	}
	return &Cache{dir: dir, locks: map[string]chan struct{}{}}, nil
}

// Key returns a text that identifies a repository and the credentials: by the identity of their owner if it is set,
// otherwise by the data of the Secret. The text contains secrets.
func Key(url, identity string, secret map[string][]byte) string {
	key := fmt.Sprintf("%q", url)
	if identity != "" {
		return fmt.Sprintf("%s %q", key, identity)
	}
	for _, name := range slices.Sorted(maps.Keys(secret)) {
		key += fmt.Sprintf(" %q=%q", name, secret[name])
	}
	return key
}

// Open opens the folder of a repository, and waits until no other goroutine uses it. When the goroutine closes the
// folder, the next goroutine can use it. The key identifies the repository and the credentials, because a user who may
// read one repository must not read the objects of another repository.
func (c *Cache) Open(ctx context.Context, key string) (*Folder, error) {
	sum := sha256.Sum256([]byte(key))
	name := hex.EncodeToString(sum[:])
	c.mu.Lock()
	lock, ok := c.locks[name]
	if !ok {
		lock = make(chan struct{}, 1)
		c.locks[name] = lock
	}
	c.mu.Unlock()
	select {
	case lock <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another fetch of the same repository: %w", context.Cause(ctx))
	}
	f, err := Open(filepath.Join(c.dir, name))
	if err != nil {
		<-lock
		return nil, err
	}
	f.release = func() { <-lock }
	return f, nil
}

// Tip returns the commit that the last call of SetTip recorded, or the zero hash. Tip is the newest commit of which the
// folder has all trees.
func (f *Folder) Tip() plumbing.Hash {
	text, err := os.ReadFile(filepath.Join(f.dir, "tip"))
	if err != nil {
		return plumbing.ZeroHash
	}
	tip := plumbing.NewHash(strings.TrimSpace(string(text)))
	if f.HasEncodedObject(tip) != nil {
		return plumbing.ZeroHash
	}
	return tip
}

// SetTip records the newest commit of which the folder has all trees.
func (f *Folder) SetTip(commit plumbing.Hash) error {
	if err := maybe.WriteFile(filepath.Join(f.dir, "tip"), []byte(commit.String()+"\n"), 0o600); err != nil {
		return fmt.Errorf("recording the newest commit: %w", err)
	}
	now := time.Now()
	if err := os.Chtimes(f.dir, now, now); err != nil { // NewCache reads from this time when the folder was last used.
		return fmt.Errorf("recording the newest commit: %w", err)
	}
	return nil
}
