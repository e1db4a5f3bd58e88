package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/memory"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// remoteRepository is a repository that Bunsen reads over a network protocol.
type remoteRepository struct {
	dialer transport.Dialer
	cache  *objects.Cache // If cache is nil, each fetch receives everything.
	key    string         // the key of this repository in the cache
	limits objects.Limits
	// If modules is true, a fetch includes the file .gitmodules in the repository's root, also if the path is another
	// folder.
	modules bool
	memory  *memory.Budget // nil: no limit
}

// listOfRefs is the answer that is read into memory. A ref needs more bytes there than in the answer.
var listOfRefs = memory.Answer{What: "refs: delete refs that nobody needs", Limit: 16 << 20, Memory: 64 << 20}

// longestHold is how long a server may take for an answer that holds memory of the other sources.
const longestHold = 20 * time.Second

// errSlow is the error for a server that takes longer.
var errSlow = fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("the server takes more than %s for a list of "+
	"refs of more than %d KiB", longestHold, memory.SmallAnswer>>10))

// holder reads the refs of a session. Its context ends if the server holds memory too long.
type holder struct {
	ctx    context.Context //nolint:containedctx // the context belongs to the reading
	cancel context.CancelCauseFunc
	memory *memory.Budget
	reader *memory.Reader
	timer  *time.Timer
}

// hold returns the holder of a session.
func (r remoteRepository) hold(ctx context.Context) *holder {
	h := &holder{memory: r.memory}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	return h
}

// refs returns a reader of an answer with refs.
func (h *holder) refs(answer io.Reader) io.Reader {
	h.reader = h.memory.Reader(h.ctx, answer, listOfRefs, func() {
		h.timer = time.AfterFunc(longestHold, func() { h.cancel(errSlow) })
	})
	return h.reader
}

// read ends the time for the answer, and returns the error of reading it.
func (h *holder) read(err error) error {
	if h.timer != nil {
		h.timer.Stop()
	}
	if cause := context.Cause(h.ctx); err != nil && errors.Is(cause, errSlow) {
		return errSlow
	}
	return err
}

// end gives the memory back.
func (h *holder) end() {
	if h.timer != nil {
		h.timer.Stop()
	}
	h.release()
	h.cancel(nil)
}

func (h *holder) release() {
	if h.reader != nil {
		h.reader.Release()
	}
}

// session is a session with a server in version 2 of git's protocol.
type session struct {
	transport.Session
	*holder
	capabilities transport.Capabilities
}

// Explain adds to an error what the server wrote about it.
func (s session) Explain(err error) error { return s.Session.Explain(s.read(err)) }

// Close ends the session, and gives the memory of its refs back.
func (s session) Close() error {
	defer s.end()
	return s.Session.Close()
}

// errVersion0 is the error for a server that does not speak version 2 of git's protocol. The session stays open after
// this error.
var errVersion0 = errors.New("the server speaks version 0 of the protocol")

// The errors for repositories whose objects have other names.
var (
	errSHA256 = errors.New("the server announces object-format=sha256")
	errFormat = errors.New("the server announces another object-format than sha1")
)

// dial opens a session. If the server does not speak version 2, dial returns errVersion0, and the session with the
// server's first message.
func (r remoteRepository) dial(ctx context.Context) (session, io.Reader, error) {
	h := r.hold(ctx)
	opened, err := r.dialer.Dial(h.ctx)
	if err != nil {
		h.end()
		return session{}, nil, err
	}
	s := session{Session: opened, holder: h}
	first := bufio.NewReaderSize(s.Advertisement(), 1<<16)
	v2, rest, err := transport.IsVersion2(first)
	if err != nil {
		return session{}, nil, errors.Join(s.Explain(err), s.Close())
	}
	if !v2 {
		return s, h.refs(rest), errVersion0
	}
	c, err := transport.ReadCapabilities(rest)
	if err == nil && c.ObjectFormat() != "sha1" {
		err = errFormat
		if c.ObjectFormat() == "sha256" {
			err = errSHA256
		}
	}
	if err != nil {
		err = s.Explain(err)
		_ = s.Close() // the first error counts
		return session{}, nil, err
	}
	s.capabilities = c
	return s, nil, nil
}

// list returns the refs that begin with one of the prefixes. Without prefixes, list returns all refs.
func (r remoteRepository) list(ctx context.Context, prefixes []string) ([]source.Ref, error) {
	s, first, err := r.dial(ctx)
	if errors.Is(err, errVersion0) {
		defer s.Close()
		old, err := version0(s, first)
		if err != nil {
			return nil, err
		}
		return refsOf(old.adv), nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	answer, err := s.Request(s.ctx, transport.RefsRequest(prefixes))
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	found, err := transport.ReadRefs(s.refs(answer))
	if err != nil {
		return nil, s.Explain(err)
	}
	return found, nil
}

// refsOf returns the refs of an advertisement, HEAD first.
func refsOf(adv *packp.AdvRefs) []source.Ref {
	refs := make([]source.Ref, 0, len(adv.References)+1)
	for name, hash := range adv.References {
		r := source.Ref{Name: name, Hash: hash.String()}
		if peeled, ok := adv.Peeled[name]; ok {
			r.Peeled = peeled.String()
		}
		refs = append(refs, r)
	}
	slices.SortFunc(refs, func(a, b source.Ref) int { return strings.Compare(a.Name, b.Name) })
	if adv.Head == nil {
		return refs
	}
	head := source.Ref{Name: "HEAD", Hash: adv.Head.String()}
	for _, s := range adv.Capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(s, "HEAD:"); ok {
			head.Target = target
		}
	}
	if head.Target == "" {
		head.Target = guessHead(refs, head.Hash)
	}
	return slices.Insert(refs, 0, head)
}

// guessHead guesses HEAD's branch for an old server that does not send it: main or master, if that branch has HEAD's
// commit.
func guessHead(refs []source.Ref, hash string) string {
	for _, name := range []string{"refs/heads/main", "refs/heads/master"} {
		if slices.ContainsFunc(refs, func(r source.Ref) bool { return r.Name == name && r.Hash == hash }) {
			return name
		}
	}
	return ""
}

// receive requests objects in a session. A server may announce filters and still refuse the filter; then receive
// requests all objects.
func (r remoteRepository) receive(ctx context.Context, s session, f transport.FetchRequest, into *objects.Folder,
	limits *objects.Limits,
) error {
	err := s.receive(ctx, f, into, limits)
	var refused *transport.RefusedError
	if f.Filter == transport.NoFilter || !errors.As(err, &refused) || ctx.Err() != nil {
		return err
	}
	next, _, dialErr := r.dial(ctx)
	if dialErr != nil {
		return err
	}
	defer next.Close()
	f.Filter, *limits = transport.NoFilter, r.limits
	return next.receive(ctx, f, into, limits)
}

// receive requests objects and adds them to a folder. receive subtracts the received bytes and objects from the limits.
func (s session) receive(ctx context.Context, f transport.FetchRequest, into *objects.Folder,
	limits *objects.Limits,
) error {
	answer, err := s.Request(ctx, f.Request())
	if err != nil {
		return err
	}
	defer answer.Close()
	pack, err := transport.ReadPack(answer)
	if err != nil {
		return s.Explain(err)
	}
	n, err := into.Add(ctx, pack, *limits)
	limits.Bytes -= n
	return err
}

// blobsPerRequest is how many files one request asks for. The files of each request stay on disk, so a fetch that was
// interrupted by its deadline continues after the last complete request.
const blobsPerRequest = 2000

// fetch gets one commit, its trees and the files below a path from the server. fetch returns the folder of objects,
// which the caller closes.
//
// If the server can leave out objects, fetch first requests the trees, and then the files below the path that are not
// on disk yet. So fetch does not fetch files outside the path. If an earlier commit is on disk, the server sends only
// the difference. A server that cannot leave out objects sends the commit with all its files.
func (r remoteRepository) fetch(ctx context.Context, p source.Picked, path string) (objects.Reader, error) {
	folder, err := r.openFolder(ctx)
	if err != nil {
		return nil, err
	}
	err = r.fetchInto(ctx, p, path, folder)
	if err != nil && ctx.Err() == nil && retryWhole(err) && folder.Tip() != plumbing.ZeroHash {
		// The objects on disk are damaged, or the server does not have them any more, so the second attempt starts with
		// an empty folder.
		if err = folder.Empty(); err == nil {
			err = r.fetchInto(ctx, p, path, folder)
		}
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

// errDamaged is in the chain of the error about objects on disk that cannot be read.
var errDamaged = errors.New("reading fetched objects")

// retryWhole reports whether a fetch without the objects on disk may succeed.
func retryWhole(err error) bool {
	var refused *transport.RefusedError
	return errors.Is(err, errDamaged) || errors.Is(err, objects.ErrMissingBase) ||
		errors.Is(err, plumbing.ErrObjectNotFound) || errors.As(err, &refused)
}

func (r remoteRepository) openFolder(ctx context.Context) (*objects.Folder, error) {
	if r.cache == nil {
		return objects.Temp()
	}
	return r.cache.Open(ctx, r.key)
}

func (r remoteRepository) fetchInto(ctx context.Context, p source.Picked, path string, folder *objects.Folder) error {
	hash := plumbing.NewHash(p.Hash)
	if folder.HasEncodedObject(hash) == nil {
		if missing, err := r.missingFiles(ctx, folder, hash, path); err == nil && len(missing) == 0 {
			return folder.SetTip(hash) // The commit is on disk, because another source of the repository fetched it.
		}
	}
	s, first, err := r.dial(ctx)
	if errors.Is(err, errVersion0) {
		defer s.Close()
		old, err := version0(s, first)
		if err != nil {
			return err
		}
		return r.fetchVersion0(ctx, p, old, folder)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	limits := r.limits
	if folder.HasEncodedObject(hash) != nil {
		if err := r.fetchFolders(ctx, s, target{p, path}, folder, &limits); err != nil {
			return r.explainRefusal(ctx, p, err)
		}
	}
	if err := folder.SetTip(hash); err != nil {
		return err
	}
	missing, err := r.missingFiles(ctx, folder, hash, path)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	for len(missing) > 0 {
		n := min(len(missing), blobsPerRequest)
		if err := s.receive(ctx, transport.FetchRequest{Wants: missing[:n]}, folder, &limits); err != nil {
			return err
		}
		missing = missing[n:]
	}
	return nil
}

// fetchFolders fetches the commit with its trees. If the path is the root of the repository, fetchFolders fetches the
// files too.
func (r remoteRepository) fetchFolders(ctx context.Context, s session, at target, folder *objects.Folder,
	limits *objects.Limits,
) error {
	f := transport.FetchRequest{Wants: []string{at.Hash}}
	if s.capabilities.Shallow() {
		f.Depth = 1
	}
	tip := folder.Tip()
	if tip != plumbing.ZeroHash && f.Depth > 0 {
		f.Haves, f.Shallow, f.Thin = []string{tip.String()}, []string{tip.String()}, true
	}
	if s.capabilities.Filters() && (at.path != "" || f.Thin) {
		f.Filter = transport.NoFiles
	}
	err := r.receive(ctx, s, f, folder, limits)
	if err == nil && folder.HasEncodedObject(plumbing.NewHash(at.Hash)) != nil {
		return commitNotFound(at.Picked, "the server sent other objects")
	}
	return err
}

// target is a commit, and a folder in the commit.
type target struct {
	source.Picked
	path string
}

// explainRefusal returns RefNotFound if the repository does not have the commit.
func (r remoteRepository) explainRefusal(ctx context.Context, p source.Picked, err error) error {
	var refused *transport.RefusedError
	if !errors.As(err, &refused) || ctx.Err() != nil {
		return err
	}
	refs, listErr := r.list(ctx, nil)
	if listErr != nil {
		return err
	}
	for _, ref := range refs {
		if ref.Commit() == p.Hash {
			return err
		}
	}
	if len(refs) == 0 {
		return commitNotFound(p, "the repository is empty")
	}
	return commitNotFound(p, "no branch or tag of the server contains it")
}

// commitNotFound returns a Retry fault for a commit that was listed, because the next listing will name another commit.
// For a pinned commit, commitNotFound returns a Stalled fault.
func commitNotFound(p source.Picked, reason string) error {
	err := fmt.Errorf("commit %s cannot be fetched: %s", p.Hash, reason)
	if p.Ref == "" {
		return fault.NewStalled(v1alpha1.ReasonRefNotFound, err)
	}
	return fault.NewRetry(v1alpha1.ReasonRefNotFound, err)
}

// missingFiles lists the files below a path of a commit that a folder does not have. missingFiles returns no error for
// a path that the commit does not have: the code that reads the files reports that.
func (r remoteRepository) missingFiles(ctx context.Context, store objects.Reader, commit plumbing.Hash,
	path string,
) ([]string, error) {
	s, err := newSnapshot(store, "", source.Picked{Hash: commit.String()})
	if err != nil {
		return nil, err
	}
	start, err := s.find(path)
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) {
			return nil, nil
		}
		return nil, err
	}
	l := lister{ctx: ctx, store: store, left: s.limits.Entries, seen: map[plumbing.Hash]bool{}}
	if r.modules {
		entry, ok, err := modulesEntry(store, s.root)
		if err != nil {
			return nil, err
		}
		if ok {
			l.file(entry)
		}
	}
	err = l.folder(start)
	return l.missing, err
}

// lister collects the files that a folder of objects does not have.
type lister struct {
	ctx     context.Context
	store   objects.Reader
	left    int // how many more entries lister may read; the code that reads the files refuses a tree with more entries
	seen    map[plumbing.Hash]bool
	missing []string
}

func (l *lister) folder(hash plumbing.Hash) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	t, err := objects.ReadTree(l.store, hash)
	if err != nil {
		return err
	}
	for _, e := range t.Entries {
		if l.left--; l.left < 0 {
			return nil
		}
		switch e.Mode {
		case filemode.Dir:
			if err := l.folder(e.Hash); err != nil {
				return err
			}
		case filemode.Regular, filemode.Deprecated, filemode.Executable:
			l.file(e.Hash)
		}
	}
	return nil
}

// file lists a file if the store does not have it.
func (l *lister) file(hash plumbing.Hash) {
	if !l.seen[hash] && l.store.HasEncodedObject(hash) != nil {
		l.missing = append(l.missing, hash.String())
	}
	l.seen[hash] = true
}
