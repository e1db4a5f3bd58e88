package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/source"
)

// Key names a tree: what it was asked for by.
type Key struct {
	// URL of the repository, without credentials.
	URL string
	// Hash of the commit, 40 hex digits.
	Hash string
	// Path of the folder in the commit, as source.CleanPath returns it.
	Path string
	// Trust is a digest of the keys whose signature the commit was found to bear; empty where none was asked for. A
	// commit verified under other keys is another entry.
	Trust string
}

// Store is an open store. Close it to let another process have it.
type Store struct {
	dir  string
	keep int
	lock *os.File
	mu   sync.Mutex // guards keys/ and trees/ against each other: a tree is there as long as a key names it
}

// Open opens or makes the store in a folder, takes its lock, and removes what a crash left behind. Of each repository
// and path the newest keep trees are kept, at least 2: the one in use and the one that replaces it.
//
// A stored tree is used without a look at the remote, so nobody else may write to the store: Open refuses a folder that
// another user owns or may write to, and takes all rights of others on a folder of this user.
func Open(dir string, keep int) (*Store, error) {
	dir, err := privateDir(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	for _, sub := range []string{"trees", "keys"} {
		if _, err := privateDir(filepath.Join(dir, sub)); err != nil {
			return nil, fmt.Errorf("opening the store: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("opening the store %s: another process uses it; give each process a folder of its own", dir)
		}
		return nil, fmt.Errorf("locking the store %s: %w", dir, err)
	}
	s := &Store{dir: dir, keep: max(keep, 2), lock: lock}
	if err := s.tidy(); err != nil {
		return nil, errors.Join(fmt.Errorf("cleaning the store %s: %w", dir, err), s.Close())
	}
	return s, nil
}

// tidy removes what a crash left: folders half written, and trees that no key names.
func (s *Store) tidy() error {
	if err := os.RemoveAll(s.path("new")); err != nil {
		return err
	}
	if err := os.Mkdir(s.path("new"), 0o700); err != nil {
		return err
	}
	return s.collect()
}

// Close gives the store up. Trees handed out stay on disk until another process collects them.
func (s *Store) Close() error { return s.lock.Close() }

// Get returns a tree that was put under this key. ok is false where there is none, or where its files are not what they
// were: such a tree is removed. The commit's Ref is empty, for it is not part of the key.
func (s *Store) Get(k Key) (tree source.Tree, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok, err := s.read(k)
	if err != nil || !ok {
		return source.Tree{}, false, err
	}
	root := s.tree(r.Digest)
	if got, err := digest(root); err != nil || got != r.Digest {
		return source.Tree{}, false, errors.Join(os.Remove(s.record(k)), os.RemoveAll(root))
	}
	if err := s.touch(k); err != nil {
		return source.Tree{}, false, err
	}
	return source.Tree{Commit: r.Commit, Root: root, FS: os.DirFS(root), Digest: r.Digest, Refused: r.Refused}, true, nil
}

// Put has fill write a tree's files into an empty folder and keeps them under the key. Of two that put the same at once
// the first stays. fill's error is returned as it is, and nothing is kept.
func (s *Store) Put(k Key, fill func(dir string) (source.Tree, error)) (source.Tree, error) {
	dir, err := os.MkdirTemp(s.path("new"), "tree-")
	if err != nil {
		return source.Tree{}, fmt.Errorf("making room in the store: %w", err)
	}
	defer os.RemoveAll(dir)
	tree, err := fill(dir)
	if err != nil {
		return source.Tree{}, err
	}
	if !wellFormed.MatchString(tree.Digest) {
		return source.Tree{}, fmt.Errorf("storing a tree: its digest is %q", tree.Digest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	root := s.tree(tree.Digest)
	if err := place(dir, root, tree.Digest); err != nil {
		return source.Tree{}, fmt.Errorf("storing a tree: %w", err)
	}
	tree.Root, tree.FS = root, os.DirFS(root)
	if err := s.write(k, tree); err != nil {
		return source.Tree{}, err
	}
	if err := s.collect(); err != nil {
		return source.Tree{}, fmt.Errorf("collecting old trees: %w", err)
	}
	return tree, nil
}

// place moves a finished tree to where it belongs. One that is there already stays, for readers may have it open, unless
// its files are not what they were.
func place(dir, root, want string) error {
	err := os.Rename(dir, root)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if got, err := digest(root); err == nil && got == want {
		return nil
	}
	return errors.Join(os.RemoveAll(root), os.Rename(dir, root))
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Store) tree(digest string) string {
	return filepath.Join(s.dir, "trees", strings.TrimPrefix(digest, "sha256:"))
}

// Remote is what a Repository asks.
type Remote interface {
	// List returns the remote's refs.
	List(ctx context.Context) ([]source.Ref, error)
	// Tree puts the files of a commit below path into the empty folder into.
	Tree(ctx context.Context, picked source.Picked, path, into string) (source.Tree, error)
	// Descends says whether the commit newer has older among its ancestors.
	Descends(ctx context.Context, older, newer string) (source.Descent, error)
}

// Repository is one folder of a remote, with its trees in a store.
type Repository struct {
	// Remote to ask.
	Remote Remote
	// Store of trees.
	Store *Store
	// URL of the remote, without credentials.
	URL string
	// Path of the folder, as a GitSource's spec.path.
	Path string
	// Trust as in Key. Where it is set, a tree is stored only if the remote found a signer for its commit.
	Trust string
}

// List returns the remote's refs.
func (r Repository) List(ctx context.Context) ([]source.Ref, error) { return r.Remote.List(ctx) }

// Tree returns a commit's files, from the store if they are there. Its errors are the remote's, or the store's own.
func (r Repository) Tree(ctx context.Context, picked source.Picked) (source.Tree, error) {
	folder, err := source.CleanPath(r.Path)
	if err != nil {
		return source.Tree{}, err
	}
	k := Key{URL: r.URL, Hash: picked.Hash, Path: folder, Trust: r.Trust}
	tree, ok, err := r.Store.Get(k)
	if err == nil && !ok {
		tree, err = r.Store.Put(k, func(dir string) (source.Tree, error) {
			return r.fetch(ctx, picked, folder, dir)
		})
	}
	if err != nil {
		return source.Tree{}, err
	}
	tree.Commit.Ref = picked.Ref
	return tree, nil
}

// fetch asks the remote, and holds it to Trust: keys that the remote was not told of must not make a tree look verified.
func (r Repository) fetch(ctx context.Context, picked source.Picked, folder, dir string) (source.Tree, error) {
	tree, err := r.Remote.Tree(ctx, picked, folder, dir)
	if err == nil && r.Trust != "" && tree.Commit.Signer == "" {
		return source.Tree{}, fmt.Errorf("fetching %s: a signature is asked for, but the remote verified none", picked.Revision().Short())
	}
	return tree, err
}

// Descends asks the remote whether the commit newer has older among its ancestors.
func (r Repository) Descends(ctx context.Context, older, newer string) (source.Descent, error) {
	return r.Remote.Descends(ctx, older, newer)
}
