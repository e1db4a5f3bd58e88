package git

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/memory"
)

// Config names a repository and the credentials and limits to read it.
type Config struct {
	// URL is an address as in GitSource's spec.url.
	URL string
	// Secret is the data of the Secret that the spec names, or nil: `username`+`password` or `bearerToken`, `ca.crt`,
	// and `tls.crt`+`tls.key` for https; `identity`, `known_hosts` and, for an encrypted identity, `password` for ssh.
	// `hosts` lists the hosts that the credentials are for. New returns an error for any other key.
	Secret map[string][]byte
	// HostsRequired rejects a Secret with credentials for https that does not list its hosts. Set HostsRequired if the
	// URL comes from a user who is not the Secret's owner.
	HostsRequired bool
	// Connect opens connections to the host for ssh, for example through a proxy. If Connect is nil, they are direct.
	Connect transport.Connect
	// HTTP returns a transport for https and http with the certificates of the Secret. Each session has its own.
	HTTP func() (transport.HTTP, error)
	// If Submodules is true, a fetch includes the files of submodules at the host of the repository, over https, http
	// or ssh. If Submodules is false, submodules are refused.
	Submodules bool
	// Limits of a tree on disk.
	Limits source.Limits
	// PackBytes is the largest number of bytes that one fetch may receive; 0 is 256 MiB. The unpacked data may be eight
	// times as large.
	PackBytes int64
	// Identity identifies the owner of the credentials if the Secret has tokens that expire soon. Identity selects the
	// folder of objects in Cache. If Identity is empty, the data of the Secret selects the folder.
	Identity string
	// Cache keeps fetched objects, so that the next fetch receives only new objects. If Cache is nil, each fetch
	// receives everything.
	Cache *objects.Cache
	// Servers remembers what servers can do, so that a poll over http is one request. If Servers is nil, each Remote
	// asks its server what it can do.
	Servers *transport.Servers
	// Memory is the budget that the sources of a process share; nil: no limit.
	Memory *memory.Budget
	// Verify checks signatures, and returns the signer. If Verify is nil, no signature is required. Remote calls Verify
	// before it fetches any file of the commit. The errors of Verify should be faults.
	Verify func(source.Evidence) (signer string, err error)
}

const (
	defaultPackBytes = 256 << 20
	inflation        = 8
	maxObjects       = 500_000
)

// Remote is one repository. Remote has no open connection while no method runs, and is safe for concurrent use.
type Remote struct {
	url    string
	limits source.Limits
	hide   secrets
	repo   repository
	// submodules is the configuration for reading submodules. If submodules is nil, a tree with submodules is refused.
	submodules *Config
	verify     func(source.Evidence) (signer string, err error)
}

// repository reads a repository over a network protocol or on this machine.
type repository interface {
	list(ctx context.Context, prefixes []string) ([]source.Ref, error)
	fetch(ctx context.Context, p source.Picked, path string) (objects.Reader, error)
	evidence(ctx context.Context, p source.Picked) (source.Evidence, error)
}

// New checks the configuration. New opens no connection. Errors are Stalled faults: InvalidSpec for the URL,
// AuthenticationFailed for the Secret.
func New(c Config) (*Remote, error) {
	a, err := source.ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.PackBytes <= 0 {
		c.PackBytes = defaultPackBytes
	}
	r := &Remote{url: a.String(), limits: c.Limits.OrDefault(), hide: secretsOf(a, c.Secret), verify: c.Verify}
	if err := transport.Check(a, c.Secret, c.HostsRequired); err != nil {
		return nil, r.hide.stalledAuth(err)
	}
	if c.Submodules {
		if a.Transport == source.Local {
			return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec, fmt.Errorf(
				"spec.include has Submodules, which the controller reads over https, http or ssh only: remove it "+
					"(now: %s)", a))
		}
		r.submodules = &c
	}
	limits := objects.Limits{
		Bytes: c.PackBytes, Unpacked: c.PackBytes * inflation, Objects: maxObjects,
		Hold: func(ctx context.Context) (func(), error) { return c.Memory.Hold(ctx, objects.UnpackMemory) },
	}
	switch a.Transport {
	case source.OCI:
		return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec,
			fmt.Errorf("url %q is an OCI registry, not a git server", a.String()))
	case source.Local:
		r.repo = local{path: a.Path}
		return r, nil
	}
	dialer, err := transport.New(a, c.Secret, transport.Options{
		PackBytes: c.PackBytes, Connect: c.Connect, HTTP: c.HTTP,
		Servers: c.Servers, Key: objects.Key(c.URL, c.Identity, c.Secret),
	})
	if err != nil {
		return nil, r.hide.stalledAuth(err)
	}
	r.repo = remoteRepository{
		dialer: dialer, cache: c.Cache, key: objects.Key(c.URL, c.Identity, c.Secret),
		limits: limits, modules: c.Submodules, memory: c.Memory,
	}
	return r, nil
}

// secretsOf lists every form in which a credential could appear: plain, escaped for a URL, in a basic header.
func secretsOf(a source.Address, secret map[string][]byte) secrets {
	user, password := string(secret["username"]), string(secret["password"])
	plain := []string{password, string(secret["bearerToken"]), a.Password}
	// A user name without a password can be a token.
	if password == "" || password == "x-oauth-basic" {
		plain = append(plain, user)
	}
	if a.Transport == source.HTTP && (a.Password == "" || a.Password == "x-oauth-basic") {
		plain = append(plain, a.User)
	}
	var all secrets
	for _, s := range plain {
		all = append(all, s, url.QueryEscape(s), url.PathEscape(s))
	}
	for _, pair := range [][2]string{{user, password}, {a.User, a.Password}} {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(pair[0]+":"+pair[1])))
	}
	all = slices.DeleteFunc(all, func(s string) bool { return len(s) < 4 || s == "Og==" })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// URL returns the repository's address without credentials.
func (r *Remote) URL() string { return r.url }

// List returns at least the refs whose names begin with one of the prefixes, in lexical order, HEAD first; without
// prefixes, all refs. An empty repository has none. A server that speaks version 0 of the protocol sends all refs.
// Errors are faults with RepositoryUnreachable or AuthenticationFailed.
func (r *Remote) List(ctx context.Context, prefixes ...string) ([]source.Ref, error) {
	refs, err := r.repo.list(ctx, prefixes)
	if err != nil {
		return nil, r.explain(ctx, "listing the refs of "+r.url, err)
	}
	return refs, nil
}

// Tree fetches a commit and puts the files below path into a directory. Tree calls Fetch and Materialise.
func (r *Remote) Tree(ctx context.Context, p source.Picked, path string, into source.Destination) (source.Tree, error) {
	s, err := r.Fetch(ctx, p, path)
	if err != nil {
		return source.Tree{}, err
	}
	defer s.Close()
	tree, err := s.Materialise(ctx, path, into)
	if f := fault.Of(err, ""); err != nil && f.Kind == fault.Retry && f.Reason == v1alpha1.ReasonRepositoryDamaged {
		s.forget()
	}
	return tree, err
}

// Fetch stores one commit, with its files below the path and without its history, until the snapshot is closed. Fetch
// may store other files too. If a server refuses to send single commits, Fetch reads the history of the picked ref
// instead, under the same limit.
//
// Errors are faults: those of List; RefNotFound if the repository does not have the commit; InvalidTree if the commit
// is damaged or too large; InvalidSpec for an invalid path; those of Verify.
func (r *Remote) Fetch(ctx context.Context, p source.Picked, path string) (*Snapshot, error) {
	doing := fmt.Sprintf("fetching %s from %s", p.Revision().Short(), r.url)
	folder, err := source.CleanPath(path)
	if err != nil {
		return nil, err
	}
	signer, err := r.verified(ctx, p)
	if err != nil {
		return nil, r.explain(ctx, doing, err)
	}
	store, err := r.repo.fetch(ctx, p, folder)
	if err != nil {
		return nil, r.explain(ctx, doing, err)
	}
	s, err := newSnapshot(store, r.url, p)
	if err != nil {
		(&Snapshot{store: store}).Close()
		return nil, r.explain(ctx, doing, err)
	}
	s.commit.Signer, s.limits, s.submodules = signer, r.limits, r.submodules
	return s, nil
}

// verified checks the signatures, and returns the signer; empty if no signature is required.
func (r *Remote) verified(ctx context.Context, p source.Picked) (string, error) {
	if r.verify == nil {
		return "", nil
	}
	e, err := r.repo.evidence(ctx, p)
	if err != nil {
		return "", err
	}
	return r.verify(e)
}

// Snapshot is one fetched commit with all its files.
type Snapshot struct {
	commit source.Commit
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
		commit: Describe(&c, p, url), root: c.TreeHash, store: store, limits: source.Limits{}.OrDefault(),
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
