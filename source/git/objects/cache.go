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

// unusedAfter is after how long the cache removes an unused folder, for example one of a deleted GitSource, or of a
// token that was renewed.
const unusedAfter = 24 * time.Hour

// removeEvery is how often Cache.Open looks for unused folders.
const removeEvery = time.Hour

// Cache is a directory with one Folder for each repository. Only one process may use the directory. Cache is safe for
// concurrent use.
type Cache struct {
	dir string

	// mu guards the fields below, and the removal of folders.
	mu sync.Mutex
	// locks are the folders that somebody uses or waits for, by name.
	locks map[string]*folderLock
	// removed is when unused folders were last removed.
	removed time.Time
}

// folderLock lets one goroutine at a time use a folder.
type folderLock struct {
	held  chan struct{}
	users int // users counts the goroutines that use the folder or wait for it.
}

// NewCache opens a cache in a directory that belongs to this user alone. NewCache removes folders that were not used
// for a day before now. Open removes those that are not used later.
func NewCache(dir string, now time.Time) (*Cache, error) {
	c := &Cache{dir: dir, locks: map[string]*folderLock{}, removed: time.Now()}
	if err := c.removeUnused(now); err != nil {
		return nil, err
	}
	return c, nil
}

// removeUnused removes the folders that nobody uses and that were not used for a day before now.
func (c *Cache) removeUnused(now time.Time) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("opening the cache of git's objects: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || c.locks[e.Name()] != nil || now.Sub(info.ModTime()) < unusedAfter {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.dir, e.Name())); err != nil {
			return fmt.Errorf("removing unused objects of git: %w", err)
		}
	}
	return nil
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
	lock, err := c.join(name)
	if err != nil {
		return nil, err
	}
	select {
	case lock.held <- struct{}{}:
	case <-ctx.Done():
		c.leave(name)
		return nil, fmt.Errorf("waiting for another fetch of the same repository: %w", context.Cause(ctx))
	}
	release := func() {
		<-lock.held
		c.leave(name)
	}
	f, err := Open(filepath.Join(c.dir, name))
	if err != nil {
		release()
		return nil, err
	}
	if err := f.touch(); err != nil {
		f.Close()
		release()
		return nil, err
	}
	f.release = release
	return f, nil
}

// join counts the caller as a user of a folder, and at times removes the folders without users.
func (c *Cache) join(name string) (*folderLock, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lock := c.locks[name]
	if lock == nil {
		lock = &folderLock{held: make(chan struct{}, 1)}
		c.locks[name] = lock
	}
	lock.users++
	if now := time.Now(); now.Sub(c.removed) >= removeEvery {
		c.removed = now
		if err := c.removeUnused(now); err != nil {
			c.drop(name)
			return nil, err
		}
	}
	return lock, nil
}

// leave ends what join began.
func (c *Cache) leave(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(name)
}

// drop counts one user of a folder less. The caller holds mu.
func (c *Cache) drop(name string) {
	lock := c.locks[name]
	if lock.users--; lock.users == 0 {
		delete(c.locks, name)
	}
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
	return f.touch()
}

// touch records that the folder is used now: the cache reads from this time when the folder was last used.
func (f *Folder) touch() error {
	now := time.Now()
	if err := os.Chtimes(f.dir, now, now); err != nil {
		return fmt.Errorf("recording the use of git's objects: %w", err)
	}
	return nil
}
