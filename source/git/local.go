package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/util"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// LocalRevision names a revision of a git repository on this machine.
type LocalRevision struct {
	// Repository is a work tree, a folder in a work tree, or a bare repository, as FindAround and FindAt find it.
	Repository string
	// Exact says that Repository is the repository itself, as in the URL of a GitSource, and not a folder in it.
	Exact bool
	// Revision is a revision as git reads it: a branch, a tag, `HEAD~1`, a hash or the beginning of a hash; empty is
	// HEAD.
	Revision string
	// Path of the folder from the repository's root, as a GitSource's spec.path.
	Path string
	// Limits of the tree; zero fields are their defaults.
	Limits source.Limits
	// Memory keeps the files in memory, as source.Destination says.
	Memory bool
}

// Resolve opens the repository and finds the commit of the revision, as git does. Spellings that are not supported are
// errors. Errors are Stalled faults: RefNotFound for a revision that the repository does not have;
// RepositoryUnreachable where there is no repository.
func (r LocalRevision) Resolve(ctx context.Context) (*gogit.Repository, plumbing.Hash, error) {
	repo, hash, _, err := r.resolve(ctx)
	return repo, hash, err
}

// resolve also returns the full name of the ref, if the revision is the name of one.
func (r LocalRevision) resolve(ctx context.Context) (
	_ *gogit.Repository, commit plumbing.Hash, ref plumbing.ReferenceName, err error,
) {
	r.Revision = cmp.Or(r.Revision, "HEAD")
	repo, err := r.open()
	switch {
	case IsNoRepository(err):
		return nil, plumbing.ZeroHash, "", fault.NewStalled(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%w: a revision can only be read from one", err))
	case err != nil:
		return nil, plumbing.ZeroHash, "", fault.NewStalled(v1alpha1.ReasonUnreachable,
			fmt.Errorf("opening the repository at %s: %w", r.Repository, err))
	}
	store, is := repo.Storer.(localStorage)
	if !is {
		return nil, plumbing.ZeroHash, "", fmt.Errorf("reading %s: it is not a repository on this "+
			"machine", r.Repository)
	}
	hash, ref, err := spelling{store, r.Revision}.resolve()
	switch {
	case errors.Is(err, errNoRevision):
		return nil, plumbing.ZeroHash, "", notFound(ctx, repo, r)
	case err != nil:
		return nil, plumbing.ZeroHash, "", fault.NewStalled(v1alpha1.ReasonRefNotFound, err)
	}
	return repo, hash, ref, nil
}

func (r LocalRevision) open() (*gogit.Repository, error) {
	find := FindAround
	if r.Exact {
		find = FindAt
	}
	at, err := find(r.Repository)
	if err != nil {
		return nil, err
	}
	return at.Open()
}

// OpenRevision puts the files of a revision into the folder into, which must exist and be empty. OpenRevision does not
// read the work tree or the index. The commit's Ref is the revision's branch or tag, empty for any other form. Errors
// are those of Resolve and Materialise.
func OpenRevision(ctx context.Context, r LocalRevision, into string) (source.Tree, error) {
	repo, hash, ref, err := r.resolve(ctx)
	if err != nil {
		return source.Tree{}, err
	}
	p := source.Picked{Hash: hash.String(), Ref: source.ShortRef(string(ref))}
	s, err := newSnapshot(repo.Storer, r.Repository, p)
	if err != nil {
		return source.Tree{}, ReadFault(ctx, "reading revision "+r.Revision+" of "+r.Repository, err)
	}
	s.limits = r.Limits.OrDefault()
	return s.Materialise(ctx, r.Path, source.Destination{Dir: into, Memory: r.Memory})
}

// notFound returns the fault for a revision that the repository does not have, with the refs that it has.
func notFound(ctx context.Context, repo *gogit.Repository, r LocalRevision) error {
	text := fmt.Sprintf("no revision %q in %s", r.Revision, r.Repository)
	if _, headErr := repo.Head(); headErr != nil && r.Revision == "HEAD" {
		text += ": it has no commit yet"
	} else if refs, err := listRefs(ctx, repo.Storer); err == nil {
		text += "; it has " + source.RefsText(refs)
	}
	return fault.NewStalled(v1alpha1.ReasonRefNotFound, errors.New(text))
}

// local is the repository at the address of a GitSource. Each method opens the repository again. So a method sees a
// push by another process completely or not at all, because git moves objects into place before it moves a ref.
type local struct{ path string }

func (l local) open() (storage.Storer, error) {
	at, err := FindAt(l.path)
	if err != nil {
		return nil, err
	}
	repo, err := at.Open()
	if err != nil {
		return nil, err
	}
	return repo.Storer, nil
}

// localStorage reads the files of a repository, as Location.Open describes.
type localStorage struct {
	*filesystem.Storage
	config *config.Config
	at     Location
}

// ErrObjectFormat means that a repository has SHA-256 object names.
var ErrObjectFormat = errors.New("has SHA-256 object names, which are not supported: convert it to SHA-1 with `git " +
	"init DIR && git fast-export --all | git -C DIR fast-import`")

// The other formats of repositories that Bunsen does not read.
var (
	errRefStorage = errors.New("has its refs in a format that is not supported, such as reftable: convert it " +
		"with `git" +
		" refs migrate --ref-format=files`")
	errExtension = errors.New("needs an extension of git that is not supported")
)

// readableExtensions are the extensions that change nothing for a reader, in lower case.
var readableExtensions = []string{
	"noop", "noop-v1", "partialclone", "preciousobjects", "worktreeconfig", "relativeworktrees",
}

// Config returns the repository's own config, without files that it includes.
func (s localStorage) Config() (*config.Config, error) { return s.config, nil }

// HasEncodedObject also finds objects in alternates, which the library's function leaves out.
func (s localStorage) HasEncodedObject(h plumbing.Hash) error {
	err := s.Storage.HasEncodedObject(h)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		_, err = s.EncodedObject(plumbing.AnyObject, h)
	}
	return err
}

// EncodedObjectSize also finds objects in alternates, which the library's function leaves out.
func (s localStorage) EncodedObjectSize(h plumbing.Hash) (int64, error) {
	size, err := s.Storage.EncodedObjectSize(h)
	if !errors.Is(err, plumbing.ErrObjectNotFound) {
		return size, err
	}
	o, err := s.EncodedObject(plumbing.AnyObject, h)
	if err != nil {
		return 0, err
	}
	return o.Size(), nil
}

// localFiles are the files of a repository, as the library has to see them.
type localFiles struct {
	billy.Filesystem
	common string
}

// ReadDir lists a directory without the lock files that git creates beside a ref while it writes the ref. The library
// would read them as refs.
func (f localFiles) ReadDir(path string) ([]os.FileInfo, error) {
	all, err := f.Filesystem.ReadDir(path)
	return slices.DeleteFunc(all, func(i os.FileInfo) bool { return strings.HasSuffix(i.Name(), ".lock") }), err
}

// Open opens a file. The list of alternates has those of the alternates too, by their absolute paths: git follows
// relative ones and alternates of alternates, and the library does not.
func (f localFiles) Open(name string) (billy.File, error) {
	const list = "objects/info/alternates"
	if filepath.Clean(name) != filepath.FromSlash(list) {
		return f.Filesystem.Open(name)
	}
	memory := memfs.New()
	all := strings.Join(alternates(filepath.Join(f.common, "objects"), nil), "\n")
	if err := util.WriteFile(memory, list, []byte(all), 0o600); err != nil {
		return nil, err
	}
	return memory.Open(list)
}

// maxAlternates is how deep git follows alternates of alternates.
const maxAlternates = 5

// alternates returns the directories of objects that a directory of objects borrows from and that exist.
func alternates(borrower string, above []string) (all []string) {
	text, err := os.ReadFile(filepath.Join(borrower, "info", "alternates"))
	if err != nil || len(above) > maxAlternates {
		return nil
	}
	above = append(above, borrower)
	for line := range strings.Lines(string(text)) {
		dir := strings.TrimRight(line, "\r\n")
		if dir == "" || dir[0] == '#' {
			continue
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(borrower, dir)
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() && !slices.Contains(above, dir) {
			all = append(append(all, dir), alternates(dir, above)...)
		}
	}
	return all
}

func (l local) list(ctx context.Context, _ []string) ([]source.Ref, error) {
	store, err := l.open()
	if err != nil {
		return nil, err
	}
	return listRefs(ctx, store)
}

// listRefs returns the refs of a repository in lexical order, HEAD first.
func listRefs(ctx context.Context, store storage.Storer) ([]source.Ref, error) {
	iter, err := store.IterReferences()
	if err != nil {
		return nil, err
	}
	var refs []source.Ref
	var head *source.Ref
	err = iter.ForEach(func(r *plumbing.Reference) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case r.Name() == plumbing.HEAD && r.Type() == plumbing.SymbolicReference:
			head = &source.Ref{Name: "HEAD", Target: string(r.Target())}
		case r.Name() == plumbing.HEAD:
			head = &source.Ref{Name: "HEAD", Hash: r.Hash().String()}
		case r.Type() == plumbing.HashReference:
			refs = append(refs, peel(store, r))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(refs, func(a, b source.Ref) int { return strings.Compare(a.Name, b.Name) })
	if head == nil || len(refs) == 0 && head.Hash == "" {
		return refs, nil
	}
	for _, r := range refs {
		if r.Name == head.Target {
			head.Hash = r.Hash
		}
	}
	return slices.Insert(refs, 0, *head), nil
}

// peel follows an annotated tag to its commit.
func peel(store storer.EncodedObjectStorer, r *plumbing.Reference) source.Ref {
	ref := source.Ref{Name: string(r.Name()), Hash: r.Hash().String()}
	for hash, depth := r.Hash(), 0; r.Name().IsTag() && depth < 8; depth++ {
		tag, err := object.GetTag(store, hash)
		if err != nil {
			break
		}
		hash = tag.Target
		ref.Peeled = hash.String()
	}
	return ref
}

func (l local) fetch(_ context.Context, p source.Picked, _ string) (objects.Reader, error) {
	store, err := l.open()
	if err != nil {
		return nil, err
	}
	return store, hasCommit(store, p)
}

// hasCommit returns an error unless a repository has the commit.
func hasCommit(store storer.EncodedObjectStorer, p source.Picked) error {
	_, err := store.EncodedObject(plumbing.CommitObject, plumbing.NewHash(p.Hash))
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return commitNotFound(p, "the repository does not have it")
	}
	return err
}

// evidence reads the commits from the disk. The history of a shallow repository is Unknown.
func (l local) evidence(ctx context.Context, p source.Picked) (source.Evidence, error) {
	store, err := l.open()
	if err != nil {
		return source.Evidence{}, err
	}
	if err := hasCommit(store, p); err != nil {
		return source.Evidence{}, err
	}
	ends, err := store.Shallow()
	if err != nil {
		return source.Evidence{}, fmt.Errorf("reading where the history ends: %w", err)
	}
	return EvidenceOf(ctx, store, p, len(ends) == 0)
}
