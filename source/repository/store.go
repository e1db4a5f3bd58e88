package repository

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2/maybe"

	"github.com/bunsen-os/bunsen/source"
)

// StoreKey identifies a tree in the store.
type StoreKey struct {
	// URL of the repository, without credentials.
	URL string
	// Hash of the commit, 40 hex digits.
	Hash string
	// Path of the folder in the commit, as source.CleanPath returns it.
	Path string
	// Trust is a digest of the allowed keys with which the commit's signature was verified. Trust is empty if no
	// signature is required. The store has separate entries for one commit that was verified with different keys.
	Trust string
	// Include names the content that the tree has in addition to the files of the commit, such as `Submodules`; empty:
	// none.
	Include string `json:",omitempty"`
}

// Store is an open store. Close releases its lock.
type Store struct {
	dir  string
	keep int
	lock *os.File
	// mu guards keys/, trees/ and taken. A tree exists as long as a record in keys/ names it.
	mu sync.Mutex
	// taken is when a caller got each tree last, by digest.
	taken map[string]time.Time
}

// Open opens or creates the store in a folder, locks it, and removes incomplete files that a crash left. For each
// repository and path the store keeps the newest trees, at least 2: the one in use and its successor.
//
// The store uses a stored tree without a request to the remote, so no other user may write to the store. Open refuses a
// folder that another user owns or may write to. If the folder belongs to this user, Open removes the permissions of
// other users.
func Open(dir string, keep int) (*Store, error) {
	dir, err := privateDir(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	for _, sub := range []string{"trees", "keys", "objects"} {
		if _, err := privateDir(filepath.Join(dir, sub)); err != nil {
			return nil, fmt.Errorf("opening the store: %w", err)
		}
	}
	lock, err := lockStore(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, keep: max(keep, 2), lock: lock, taken: map[string]time.Time{}}
	if err := s.cleanUp(); err != nil {
		return nil, errors.Join(fmt.Errorf("cleaning the store %s: %w", dir, err), s.Close())
	}
	return s, nil
}

// privateDir creates a directory that only this user may enter, or checks the existing one, and returns its path
// without symbolic links. If other users may read a directory of this user, privateDir removes their permissions.
//
// Each parent directory must belong to root or to this user, because the owner of a parent directory could replace the
// directory.
func privateDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	dir = filepath.Join(above, filepath.Base(dir))
	for at := above; ; at = filepath.Dir(at) {
		if err := ownedBy(at, 0, os.Geteuid()); err != nil {
			return "", err
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if err := ownedBy(dir, os.Geteuid()); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("other users may write to %s (mode %#o): remove it, or name a directory below it", dir,
			info.Mode().Perm())
	}
	if info.Mode().Perm()&0o077 != 0 {
		return dir, os.Chmod(dir, 0o700)
	}
	return dir, nil
}

// cleanUp removes the leftovers of a crash: incomplete folders, and trees without a key.
func (s *Store) cleanUp() error {
	if err := os.RemoveAll(s.path("new")); err != nil {
		return err
	}
	if err := os.Mkdir(s.path("new"), 0o700); err != nil {
		return err
	}
	return s.collect()
}

// Close releases the store. Trees in use stay on disk until the next process that opens the store removes them.
func (s *Store) Close() error { return s.lock.Close() }

// Get returns the tree of a key. ok is false if there is none. If the files of the tree were changed, Get removes the
// tree and returns false. The Ref of the tree's commit is empty, because the ref is not part of the key.
func (s *Store) Get(k StoreKey) (tree source.Tree, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok, err := s.read(k)
	if err != nil || !ok {
		return source.Tree{}, false, err
	}
	root := s.tree(r.Digest)
	if got, err := digest(root); err != nil || got != r.Digest {
		return source.Tree{}, false, errors.Join(os.Remove(s.record(k)), s.remove(root))
	}
	if err := s.touch(k); err != nil {
		return source.Tree{}, false, err
	}
	s.taken[r.Digest] = time.Now()
	return source.Tree{Commit: r.Commit, Root: root, FS: os.DirFS(root), Digest: r.Digest, Refused: r.Refused}, true,
		nil
}

// Put calls fill, which writes a tree's files, and stores the tree under the key. If two callers store the same tree,
// the tree of the first one stays. If fill fails, Put stores nothing and returns the error of fill unchanged.
func (s *Store) Put(k StoreKey, fill func(into source.Destination) (source.Tree, error)) (source.Tree, error) {
	dir, err := os.MkdirTemp(s.path("new"), "tree-")
	if err != nil {
		return source.Tree{}, fmt.Errorf("creating a folder in the store: %w", err)
	}
	defer os.RemoveAll(dir)
	tree, err := fill(source.Destination{Dir: dir, Earlier: s.newest(k)})
	if err != nil {
		return source.Tree{}, err
	}
	if !wellFormed.MatchString(tree.Digest) {
		return source.Tree{}, fmt.Errorf("storing a tree: its digest is %q", tree.Digest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	root := s.tree(tree.Digest)
	if err := s.move(dir, root, tree.Digest); err != nil {
		return source.Tree{}, fmt.Errorf("storing a tree: %w", err)
	}
	tree.Root, tree.FS, tree.Entries = root, os.DirFS(root), nil // Only comparisons of commits need the list.
	if err := s.write(k, tree); err != nil {
		return source.Tree{}, err
	}
	s.taken[tree.Digest] = time.Now()
	if err := s.collect(); err != nil {
		return source.Tree{}, fmt.Errorf("collecting old trees: %w", err)
	}
	return tree, nil
}

// move moves a complete tree to its place. If the store has the tree already, the existing one stays, because readers
// may have its files open. Only a tree whose files were changed is replaced.
func (s *Store) move(dir, root, want string) error {
	err := os.Rename(dir, root)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if got, err := digest(root); err == nil && got == want {
		return nil
	}
	return errors.Join(s.remove(root), os.Rename(dir, root))
}

// Objects returns the path of a private directory for objects of git, which the store itself does not use.
func (s *Store) Objects() string { return s.path("objects") }

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Store) tree(digest string) string {
	return filepath.Join(s.dir, "trees", strings.TrimPrefix(digest, "sha256:"))
}

// record is the entry of the store for a key.
type record struct {
	Key     StoreKey
	Commit  source.Commit
	Digest  string
	Refused []source.Refusal

	// used is the time at which Get last returned the record's tree. It is stored as the modification time of the
	// record's file.
	used time.Time
	file string
}

// wellFormed matches digests, which are safe as the name of a folder.
var wellFormed = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// readWithin is how long a caller may read a tree. File times do not tell that it does: a clock may have been set back.
const readWithin = 30 * time.Minute

// unusedAfter is after how long the store removes an unused record, for example one of a deleted GitSource.
const unusedAfter = 30 * 24 * time.Hour

func (s *Store) record(k StoreKey) string {
	h := sha256.New()
	for _, part := range []string{k.URL, k.Hash, k.Path, k.Trust, k.Include} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return filepath.Join(s.dir, "keys", hex.EncodeToString(h.Sum(nil))+".json")
}

// read returns a key's record. If the record cannot be decoded, ok is false, and the caller fetches the tree again.
func (s *Store) read(k StoreKey) (record, bool, error) {
	data, err := os.ReadFile(s.record(k))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, fmt.Errorf("reading the store: %w", err)
	}
	var r record
	if json.Unmarshal(data, &r) != nil || r.Key != k || !wellFormed.MatchString(r.Digest) {
		return record{}, false, nil
	}
	return r, true, nil
}

func (s *Store) write(k StoreKey, t source.Tree) error {
	t.Commit.Ref = ""
	data, err := json.MarshalIndent(record{Key: k, Commit: t.Commit, Digest: t.Digest, Refused: t.Refused}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the store: %w", err)
	}
	if err := maybe.WriteFile(s.record(k), data, 0o600); err != nil {
		return fmt.Errorf("writing the store: %w", err)
	}
	return nil
}

func (s *Store) touch(k StoreKey) error {
	now := time.Now()
	if err := os.Chtimes(s.record(k), now, now); err != nil {
		return fmt.Errorf("reading the store: %w", err)
	}
	return nil
}

// newest returns the directory of the newest tree of a repository and path; empty if there is none. Another goroutine
// may remove the directory at any time.
func (s *Store) newest(k StoreKey) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, err := s.records()
	if err != nil {
		return "" // Put reads the records again, and reports the error then.
	}
	var newest record
	for _, r := range records {
		if r.Key.URL == k.URL && r.Key.Path == k.Path && r.Digest != "" && r.used.After(newest.used) {
			newest = r
		}
	}
	if newest.Digest == "" {
		return ""
	}
	return s.tree(newest.Digest)
}

// collect removes old records and unused trees. collect keeps the newest records of each repository and path, those
// whose trees somebody may be reading, and the trees that a record names.
func (s *Store) collect() error {
	maps.DeleteFunc(s.taken, func(_ string, at time.Time) bool { return time.Since(at) > readWithin })
	records, err := s.records()
	if err != nil {
		return err
	}
	slices.SortFunc(records, func(a, b record) int {
		return cmp.Or(b.used.Compare(a.used), strings.Compare(a.file, b.file))
	})
	kept := map[[2]string]int{}
	named := map[string]bool{}
	for _, r := range records {
		of := [2]string{r.Key.URL, r.Key.Path}
		kept[of]++
		_, isRead := s.taken[r.Digest]
		if r.Digest == "" || !isRead && (kept[of] > s.keep || time.Since(r.used) > unusedAfter) {
			if err := os.Remove(r.file); err != nil {
				return err
			}
			continue
		}
		named[filepath.Base(s.tree(r.Digest))] = true
	}
	trees, err := os.ReadDir(s.path("trees"))
	if err != nil {
		return err
	}
	for _, t := range trees {
		if !named[t.Name()] {
			if err := s.remove(filepath.Join(s.path("trees"), t.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a tree. It first moves the whole tree away, so that no reader finds the tree's directory with only
// some of its files. A tree that is gone already is no error.
func (s *Store) remove(root string) error {
	away, err := os.MkdirTemp(s.path("new"), "removed-")
	if err != nil {
		return err
	}
	if err = os.Rename(root, filepath.Join(away, "tree")); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(away))
}

func (s *Store) records() ([]record, error) {
	entries, err := os.ReadDir(s.path("keys"))
	if err != nil {
		return nil, err
	}
	var all []record
	for _, e := range entries {
		r := record{file: filepath.Join(s.path("keys"), e.Name())}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(r.file)
		if err != nil {
			return nil, err
		}
		if json.Unmarshal(data, &r) != nil || !wellFormed.MatchString(r.Digest) {
			r.Digest = "" // an empty digest causes collect to remove the record
		}
		r.used = info.ModTime()
		all = append(all, r)
	}
	return all, nil
}
