package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
)

// History reads the commits of a local repository, back from one revision. History caches what it reads for later
// queries. History is not safe for concurrent use.
type History struct {
	store   storer.EncodedObjectStorer
	url     string
	folder  string
	start   plumbing.Hash
	commits map[plumbing.Hash]*commit
	entries map[entryKey]entry
	shallow bool
}

// commit is the part of a commit that a walk through the history needs.
type commit struct {
	hash, tree plumbing.Hash
	parents    []plumbing.Hash
	// when is the commit time in seconds. Blame visits newer commits first, so that it visits most commits once.
	when int64
}

// entryKey is a name in one of git's trees.
type entryKey struct {
	tree plumbing.Hash
	name string
}

// entry is the object of a name in a tree. The zero value means that the tree does not have the name.
type entry struct {
	hash plumbing.Hash
	mode filemode.FileMode
}

// Open finds the revision. Paths in queries are relative to at.Path. Open does not use at.Limits. Errors are faults, as
// those of git.OpenRevision.
func Open(ctx context.Context, at git.LocalRevision) (*History, error) {
	repo, hash, err := at.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := source.CleanPath(at.Path)
	if err != nil {
		return nil, err
	}
	shallow, err := repo.Storer.Shallow()
	if err != nil {
		return nil, git.ReadFault(ctx, "reading where a shallow repository ends", err)
	}
	return &History{
		shallow: len(shallow) > 0,
		store:   repo.Storer, url: at.Repository, folder: folder, start: hash,
		commits: map[plumbing.Hash]*commit{}, entries: map[entryKey]entry{},
	}, nil
}

// Parents returns the hashes of the revision's parents in git's order, also of parents that a shallow repository does
// not have. Errors are faults.
func (h *History) Parents(ctx context.Context) ([]string, error) {
	c, err := h.commit(h.start)
	if err != nil {
		return nil, git.ReadFault(ctx, "reading the parents of a commit", err)
	}
	out := make([]string, len(c.parents))
	for i, p := range c.parents {
		out[i] = p.String()
	}
	return out, nil
}

// IsShallow reports whether the repository lacks a part of its history. Lines that Blame attributes to its oldest
// commits may be older.
func (h *History) IsShallow() bool { return h.shallow }

// commit reads a commit. commit returns nil for a commit that a shallow repository does not have.
func (h *History) commit(hash plumbing.Hash) (*commit, error) {
	if c, ok := h.commits[hash]; ok {
		return c, nil
	}
	var c *commit
	switch o, err := object.GetCommit(h.store, hash); {
	case err == nil:
		c = &commit{hash: hash, tree: o.TreeHash, parents: o.ParentHashes, when: o.Committer.When.Unix()}
	case !errors.Is(err, plumbing.ErrObjectNotFound) || hash == h.start:
		return nil, fmt.Errorf("reading commit %s: %w", hash, err)
	}
	h.commits[hash] = c
	return c, nil
}

// parents returns those parents of a commit that the repository contains.
func (h *History) parents(c *commit) (out []*commit, err error) {
	for _, hash := range c.parents {
		p, err := h.commit(hash)
		if err != nil {
			return nil, err
		}
		if p != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// blob returns the hash of the file at a path of a commit, or the zero hash.
func (h *History) blob(c *commit, file string) (plumbing.Hash, error) {
	at := entry{c.tree, filemode.Dir}
	for _, name := range strings.Split(file, "/") {
		if at.mode != filemode.Dir {
			return plumbing.ZeroHash, nil
		}
		var err error
		if at, err = h.entry(at.hash, name); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	if !at.mode.IsFile() {
		return plumbing.ZeroHash, nil
	}
	return at.hash, nil
}

// entry finds a name in one of git's trees. entry does not decode the whole tree, because a history has as many trees
// as commits, and a query needs one name of each tree.
func (h *History) entry(tree plumbing.Hash, name string) (entry, error) {
	key := entryKey{tree, name}
	if e, ok := h.entries[key]; ok {
		return e, nil
	}
	data, err := objects.ReadObject(h.store, plumbing.TreeObject, tree, objects.MaxTreeBytes)
	if err != nil {
		return entry{}, err
	}
	e, err := findEntry(data, name)
	if err != nil {
		return entry{}, fmt.Errorf("reading tree %s: %w", tree, err)
	}
	h.entries[key] = e
	return e, nil
}

var errTree = errors.New("the tree object is damaged")

// findEntry scans the bytes of a tree, which repeat: mode, blank, name, NUL, hash.
func findEntry(data []byte, name string) (entry, error) {
	for len(data) > 0 {
		blank := bytes.IndexByte(data, ' ')
		nul := bytes.IndexByte(data, 0)
		if blank < 0 || nul < blank || len(data) < nul+1+len(plumbing.ZeroHash) {
			return entry{}, errTree
		}
		if string(data[blank+1:nul]) == name {
			mode, err := filemode.New(string(data[:blank]))
			if err != nil {
				return entry{}, errTree
			}
			return entry{plumbing.Hash(data[nul+1 : nul+1+len(plumbing.ZeroHash)]), mode}, nil
		}
		data = data[nul+1+len(plumbing.ZeroHash):]
	}
	return entry{}, nil
}

// describe reads the author, time and subject of a commit, for messages.
func (h *History) describe(hash plumbing.Hash) (source.Commit, error) {
	c, err := object.GetCommit(h.store, hash)
	if err != nil {
		return source.Commit{}, fmt.Errorf("reading commit %s: %w", hash, err)
	}
	return git.Describe(c, source.Picked{Hash: hash.String()}, h.url), nil
}

// renamedFrom returns the path in a parent from which a commit renamed a file. renamedFrom returns "" if the commit
// added the file. The earlier path has the same content in the parent, and does not exist in the commit. If several
// paths of the parent qualify, renamedFrom prefers one with the same base name.
func (h *History) renamedFrom(c, parent *commit, file string, blob plumbing.Hash) (string, error) {
	var found string
	err := h.removed(parent.tree, c.tree, "", func(name string, hash plumbing.Hash) {
		if hash == blob && (found == "" || path.Base(name) == path.Base(file) && path.Base(found) != path.Base(file)) {
			found = name
		}
	})
	return found, err
}

// removed calls visit for each file below the tree before that the tree after does not have, in the order of names.
func (h *History) removed(before, after plumbing.Hash, prefix string,
	visit func(name string, hash plumbing.Hash),
) error {
	var old, now object.Tree
	for hash, into := range map[plumbing.Hash]*object.Tree{before: &old, after: &now} {
		if hash.IsZero() {
			continue
		}
		t, err := objects.ReadTree(h.store, hash)
		if err != nil {
			return fmt.Errorf("reading folder %q: %w", prefix, err)
		}
		*into = *t
	}
	remaining := make(map[string]object.TreeEntry, len(now.Entries))
	for _, e := range now.Entries {
		remaining[e.Name] = e
	}
	for _, e := range old.Entries {
		same, name := remaining[e.Name], path.Join(prefix, e.Name)
		switch {
		case same.Hash == e.Hash && same.Mode == e.Mode:
		case e.Mode == filemode.Dir:
			below := same.Hash
			if same.Mode != filemode.Dir {
				below = plumbing.ZeroHash
			}
			if err := h.removed(e.Hash, below, name, visit); err != nil {
				return err
			}
		case e.Mode.IsFile() && !same.Mode.IsFile():
			visit(name, e.Hash)
		}
	}
	return nil
}
