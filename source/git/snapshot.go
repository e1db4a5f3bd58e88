package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"

	"github.com/bunsen-os/bunsen/source/git/objects"
)

// Snapshot is one fetched commit with all its files.
type Snapshot struct {
	commit source.Commit
	raw    []byte
	root   plumbing.Hash
	store  objects.Reader
	limits source.Limits
	// submodules is the configuration for reading submodules. If submodules is nil, a tree with submodules is refused.
	submodules *Config
}

func newSnapshot(store objects.Reader, url string, p source.Picked) (*Snapshot, error) {
	raw, err := objects.ReadObject(store, plumbing.CommitObject, plumbing.NewHash(p.Hash), 1<<20)
	if err != nil {
		return nil, fmt.Errorf("reading commit %s: %w", p.Hash, err)
	}
	// A signature covers these bytes of the commit. So newSnapshot parses the commit from these bytes, and does not
	// read it from the store again.
	var c object.Commit
	if err := c.Decode(objects.Memory(plumbing.CommitObject, raw)); err != nil {
		return nil, fmt.Errorf("reading commit %s: %w", p.Hash, err)
	}
	if !bytes.HasPrefix(raw, []byte("tree "+c.TreeHash.String()+"\n")) {
		return nil, fault.NewStalled(v1alpha1.ReasonInvalidTree,
			fmt.Errorf("commit %s does not begin with one tree: create it again with git", p.Hash))
	}
	return &Snapshot{
		commit: Describe(&c, p, url),
		raw:    raw, root: c.TreeHash, store: store, limits: source.Limits{}.OrDefault(),
	}, nil
}

// Describe returns the author, time and subject of a commit of the repository at url.
func Describe(c *object.Commit, p source.Picked, url string) source.Commit {
	return source.Commit{
		URL: url, Ref: p.Ref, Hash: p.Hash,
		Author:  source.Line(fmt.Sprintf("%s <%s>", c.Author.Name, c.Author.Email)),
		Subject: source.Line(c.Message),
		Time:    source.CommitTime(c.Committer.When),
	}
}

// Close deletes the files of a snapshot that was fetched from a remote. After Close, the caller must not call another
// method.
func (s *Snapshot) Close() {
	if fetched, ok := s.store.(*objects.Folder); ok {
		fetched.Close()
	}
}

// forget removes fetched objects that cannot be read, so that the next fetch receives them again.
func (s *Snapshot) forget() {
	if fetched, ok := s.store.(*objects.Folder); ok {
		_ = fetched.Empty() // The next fetch opens the folder again, and reports the error if there is one.
	}
}

// Commit describes the commit. The Signer of the commit is empty if Config.Verify is nil.
func (s *Snapshot) Commit() source.Commit { return s.commit }

// Object returns the commit as git stores it. A signature of the commit covers these bytes.
func (s *Snapshot) Object() []byte { return s.raw }

// Materialise puts the files below path into a directory and returns them as a tree. Materialise writes regular files,
// 0644 or 0755, and lists everything else as refused. With Config.Submodules, Materialise fetches
// the commits that the tree names.
//
// Errors are faults: PathNotFound, with the existing folders; InvalidTree if a limit is exceeded or the repository is
// damaged; InvalidSpec for an invalid path; Unreachable and AuthenticationFailed for submodules;
// RefNotFound for a commit that a submodule does not have.
func (s *Snapshot) Materialise(ctx context.Context, path string, into source.Destination) (source.Tree, error) {
	doing := fmt.Sprintf("reading the files of %s in %s", s.commit.Revision().Short(), s.commit.URL)
	top, err := OpenDirectory(into)
	if err != nil {
		return source.Tree{}, fmt.Errorf("%s: %w", doing, err)
	}
	defer top.Close()
	var files *Files
	if into.Memory {
		files = NewFiles(into.Dir)
	}
	folder, err := source.CleanPath(path)
	if err != nil {
		return source.Tree{}, err
	}
	inventory := source.NewInventory(s.limits)
	w := walk{
		ctx: ctx, store: s.store, inventory: inventory,
		fileBytes: s.limits.FileBytes, at: &place{root: s.root, folder: folder}, files: files,
	}
	if err := s.allowSubmodules(w.at); err != nil {
		return source.Tree{}, err
	}
	start, err := s.find(folder)
	if err == nil {
		err = w.folder("", start, top)
	}
	if err != nil {
		return source.Tree{}, ReadFault(ctx, doing, err)
	}
	tree := source.Tree{
		Commit: s.commit, Root: into.Dir, FS: os.DirFS(into.Dir),
		Digest: w.inventory.Digest(), Refused: w.inventory.Refused(), Entries: w.inventory.Entries(),
	}
	if files != nil {
		tree = files.Into(tree)
	}
	return tree, nil
}

// ReadFault turns an error of reading objects into a Retry fault, because another fetch may fix the objects. ReadFault
// returns a fault unchanged.
func ReadFault(ctx context.Context, doing string, err error) error {
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		return err
	case ctx.Err() != nil:
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %w", doing, context.Cause(ctx)))
	case errors.Is(err, plumbing.ErrObjectNotFound) || errors.Is(err, os.ErrNotExist):
		err = fmt.Errorf("%w: the repository is damaged, a partial clone, or was repacked just now", err)
	}
	return fault.NewRetry(v1alpha1.ReasonRepositoryDamaged, fmt.Errorf("%s: %w", doing, err))
}

// find returns git's tree of the folder that the source's path names.
func (s *Snapshot) find(folder string) (plumbing.Hash, error) {
	at, parent := s.root, ""
	if folder == "" {
		return at, nil
	}
	for _, name := range strings.Split(folder, "/") {
		t, err := objects.ReadTree(s.store, at)
		if err != nil {
			return at, fmt.Errorf("reading folder %q: %w", parent, err)
		}
		var folders []string
		found := false
		for _, e := range t.Entries {
			if e.Mode != filemode.Dir {
				continue
			}
			if e.Name == name && !found {
				at, found = e.Hash, true
			}
			if source.RefuseName(e.Name) == "" {
				folders = append(folders, e.Name)
			}
		}
		if !found {
			return at, source.NoSuchPath(folder, s.commit.Revision(), parent, folders)
		}
		parent = path.Join(parent, name)
	}
	return at, nil
}

// walk writes a tree's files below root.
type walk struct {
	ctx       context.Context
	store     objects.Reader
	inventory *source.Inventory
	fileBytes int64 // the size of the largest allowed file
	at        *place
	files     *Files // nil: each file is written to its directory
}

func (w *walk) folder(at string, hash plumbing.Hash, into *Directory) error {
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	t, err := objects.ReadTree(w.store, hash)
	if err != nil {
		return fmt.Errorf("reading folder %q: %w", at, err)
	}
	seen := map[string]bool{}
	for _, e := range t.Entries {
		p, ok, err := w.inventory.Enter(at, e.Name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if seen[e.Name] {
			w.inventory.Refuse(p, "the folder has two entries of this name")
			continue
		}
		seen[e.Name] = true
		if err := w.entry(p, e, into); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(p string, e object.TreeEntry, into *Directory) error {
	switch e.Mode {
	case filemode.Dir:
		below := into.Below(e.Name)
		defer below.Close()
		return w.folder(p, e.Hash, below)
	case filemode.Regular, filemode.Deprecated, filemode.Executable:
		return w.file(p, e, into)
	case filemode.Symlink:
		w.inventory.RefuseTarget(p, "symbolic link", e.Hash.String())
	case filemode.Submodule:
		return w.submodule(p, e, into)
	default:
		w.inventory.Refuse(p, fmt.Sprintf("entry of unknown mode %s", e.Mode))
	}
	return nil
}

func (w *walk) file(p string, e object.TreeEntry, into *Directory) error {
	mode := os.FileMode(0o644)
	if e.Mode == filemode.Executable {
		mode = 0o755
	}
	data, same := into.Unchanged(e.Name, e.Hash, mode, w.fileBytes)
	var err error
	if same {
		err = w.inventory.Admit(p, int64(len(data)))
	} else {
		data, err = w.content(p, e)
	}
	if err != nil {
		return err
	}
	if !w.inventory.Add(p, e.Mode == filemode.Executable, data) || same && into.Link(e.Name) {
		return nil
	}
	if w.files != nil {
		return w.files.Add(p, mode, data)
	}
	if err := into.Write(e.Name, mode, data); err != nil {
		return fmt.Errorf("writing %s: %w", p, err)
	}
	return nil
}

// content reads a file's content, if its size is admitted.
func (w *walk) content(p string, e object.TreeEntry) ([]byte, error) {
	size, err := w.store.EncodedObjectSize(e.Hash)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", p, err)
	}
	if err := w.inventory.Admit(p, size); err != nil {
		return nil, err
	}
	data, err := objects.ReadObject(w.store, plumbing.BlobObject, e.Hash, size)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", p, err)
	}
	return data, nil
}
