package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// History answers which commit last changed a line of a file, as of one revision of a repository on this machine. What it
// read for one question it remembers for the next. It is for one goroutine.
type History struct {
	store   storer.EncodedObjectStorer
	url     string
	folder  string
	start   plumbing.Hash
	commits map[plumbing.Hash]*visit
	folders map[inFolder]entryAt
	shallow bool
}

// visit is a commit as a walk through history needs it.
type visit struct {
	hash, tree plumbing.Hash
	parents    []plumbing.Hash
	// when it was committed, in seconds: newer commits are looked at first, so that most are looked at once.
	when int64
}

// inFolder is a name in one of git's trees.
type inFolder struct {
	tree plumbing.Hash
	name string
}

// entryAt is what a name stands for there; its zero value, nothing.
type entryAt struct {
	hash plumbing.Hash
	mode filemode.FileMode
}

// OpenHistory finds the revision. Paths asked for later are below at.Path; at.Limits are not looked at. Errors are faults,
// as OpenRevision's.
func OpenHistory(ctx context.Context, at At) (*History, error) {
	if at.Revision == "" {
		at.Revision = "HEAD"
	}
	repo, err := around(at.Repository)
	switch {
	case errors.Is(err, gogit.ErrRepositoryNotExists):
		return nil, fault.NewStalled(v1alpha1.ReasonUnreachable, fmt.Errorf("%s is in no git repository, and so has no history", at.Repository))
	case err != nil:
		return nil, fault.NewStalled(v1alpha1.ReasonUnreachable, fmt.Errorf("opening the repository at %s: %w", at.Repository, err))
	}
	hash, err := repo.ResolveRevision(plumbing.Revision(at.Revision))
	if err != nil {
		return nil, unresolved(ctx, repo, at, err)
	}
	folder, err := source.CleanPath(at.Path)
	if err != nil {
		return nil, err
	}
	ends, err := repo.Storer.Shallow()
	if err != nil {
		return nil, damaged(ctx, "reading where a shallow repository ends", err)
	}
	return &History{
		shallow: len(ends) > 0,
		store:   repo.Storer, url: at.Repository, folder: folder, start: *hash,
		commits: map[plumbing.Hash]*visit{}, folders: map[inFolder]entryAt{},
	}, nil
}

// commit reads a commit; nil where a shallow repository does not have it.
func (h *History) commit(hash plumbing.Hash) (*visit, error) {
	if v, ok := h.commits[hash]; ok {
		return v, nil
	}
	var v *visit
	switch c, err := object.GetCommit(h.store, hash); {
	case err == nil:
		v = &visit{hash: hash, tree: c.TreeHash, parents: c.ParentHashes, when: c.Committer.When.Unix()}
	case !errors.Is(err, plumbing.ErrObjectNotFound) || hash == h.start:
		return nil, fmt.Errorf("reading commit %s: %w", hash, err)
	}
	h.commits[hash] = v
	return v, nil
}

// parents are those that the repository has.
func (h *History) parents(v *visit) (out []*visit, err error) {
	for _, hash := range v.parents {
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

// blob is the file at a path of a commit, or the zero hash.
func (h *History) blob(v *visit, file string) (plumbing.Hash, error) {
	at := entryAt{v.tree, filemode.Dir}
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

// entry looks a name up in one of git's trees. The tree is not taken apart for it: there are as many as commits, and of
// each just one name is of interest.
func (h *History) entry(tree plumbing.Hash, name string) (entryAt, error) {
	key := inFolder{tree, name}
	if e, ok := h.folders[key]; ok {
		return e, nil
	}
	data, err := h.read(plumbing.TreeObject, tree)
	if err != nil {
		return entryAt{}, err
	}
	e, err := search(data, name)
	if err != nil {
		return entryAt{}, fmt.Errorf("reading tree %s: %w", tree, err)
	}
	h.folders[key] = e
	return e, nil
}

var errTree = errors.New("it is damaged")

// search scans a tree's bytes: mode, blank, name, NUL, hash, and so on.
func search(data []byte, name string) (entryAt, error) {
	for len(data) > 0 {
		blank := bytes.IndexByte(data, ' ')
		nul := bytes.IndexByte(data, 0)
		if blank < 0 || nul < blank || len(data) < nul+1+len(plumbing.ZeroHash) {
			return entryAt{}, errTree
		}
		if string(data[blank+1:nul]) == name {
			mode, err := filemode.New(string(data[:blank]))
			if err != nil {
				return entryAt{}, errTree
			}
			return entryAt{plumbing.Hash(data[nul+1 : nul+1+len(plumbing.ZeroHash)]), mode}, nil
		}
		data = data[nul+1+len(plumbing.ZeroHash):]
	}
	return entryAt{}, nil
}

// read returns an object's bytes.
func (h *History) read(t plumbing.ObjectType, hash plumbing.Hash) ([]byte, error) {
	o, err := h.store.EncodedObject(t, hash)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", hash, err)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", hash, err)
	}
	data := bytes.NewBuffer(make([]byte, 0, o.Size()))
	_, err = data.ReadFrom(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("object %s: %w", hash, err)
	}
	return data.Bytes(), nil
}

// describe reads a commit once more for people.
func (h *History) describe(hash plumbing.Hash) (source.Commit, error) {
	c, err := object.GetCommit(h.store, hash)
	if err != nil {
		return source.Commit{}, fmt.Errorf("reading commit %s: %w", hash, err)
	}
	return source.Commit{
		URL: h.url, Hash: hash.String(),
		Author:  source.Line(fmt.Sprintf("%s <%s>", c.Author.Name, c.Author.Email)),
		Subject: source.Line(c.Message),
		Time:    source.Moment(c.Committer.When),
	}, nil
}

// below is a path in the repository of a path below the folder.
func (h *History) below(file string) string { return path.Join(h.folder, file) }

// renamed looks for the file that a commit's parent has under another name: one with the very content that is not there
// any more, of the same name in another folder where there is a choice. Without one the file was added.
func (h *History) renamed(v, parent *visit, file string, blob plumbing.Hash) (string, error) {
	var found string
	err := h.gone(parent.tree, v.tree, "", func(name string, hash plumbing.Hash) {
		if hash == blob && (found == "" || path.Base(name) == path.Base(file) && path.Base(found) != path.Base(file)) {
			found = name
		}
	})
	return found, err
}

// gone tells of every file below a tree that another tree does not have, in the order of their names.
func (h *History) gone(old, now plumbing.Hash, prefix string, tell func(name string, hash plumbing.Hash)) error {
	var before, after object.Tree
	for hash, into := range map[plumbing.Hash]*object.Tree{old: &before, now: &after} {
		if hash.IsZero() {
			continue
		}
		t, err := folderAt(h.store, hash)
		if err != nil {
			return fmt.Errorf("reading folder %q: %w", prefix, err)
		}
		*into = *t
	}
	still := make(map[string]object.TreeEntry, len(after.Entries))
	for _, e := range after.Entries {
		still[e.Name] = e
	}
	for _, e := range before.Entries {
		same, name := still[e.Name], path.Join(prefix, e.Name)
		switch {
		case same.Hash == e.Hash && same.Mode == e.Mode:
		case e.Mode == filemode.Dir:
			there := same.Hash
			if same.Mode != filemode.Dir {
				there = plumbing.ZeroHash
			}
			if err := h.gone(e.Hash, there, name, tell); err != nil {
				return err
			}
		case e.Mode.IsFile() && !same.Mode.IsFile():
			tell(name, e.Hash)
		}
	}
	return nil
}
