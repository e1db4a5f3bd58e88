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
