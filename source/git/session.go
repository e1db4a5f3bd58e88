package git

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/git/wire"
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
}

// session is a session with a server in version 2 of git's protocol.
type session struct {
	transport.Session
	capabilities wire.Capabilities
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
	s, err := r.dialer.Dial(ctx)
	if err != nil {
		return session{}, nil, err
	}
	first := bufio.NewReaderSize(s.Advertisement(), 1<<16)
	v2, rest, err := wire.IsVersion2(first)
	if err != nil {
		return session{}, nil, errors.Join(s.Explain(err), s.Close())
	}
	if !v2 {
		return session{Session: s}, rest, errVersion0
	}
	c, err := wire.ReadCapabilities(rest)
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
	return session{Session: s, capabilities: c}, nil, nil
}

// list returns the refs that begin with one of the prefixes. Without prefixes, list returns all refs.
func (r remoteRepository) list(ctx context.Context, prefixes []string) ([]source.Ref, error) {
	s, first, err := r.dial(ctx)
	if errors.Is(err, errVersion0) {
		defer s.Close()
		adv, err := readAdvertisement(first)
		if err != nil {
			return nil, s.Explain(err)
		}
		return refsOf(adv), nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	answer, err := s.Request(ctx, wire.RefsRequest(prefixes))
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	refs, err := wire.ReadRefs(answer)
	if err != nil {
		return nil, s.Explain(err)
	}
	return refs, nil
}

// receive requests objects in a session. A server may announce filters and still refuse the filter; then receive
// requests all objects.
func (r remoteRepository) receive(ctx context.Context, s session, f wire.Fetch, into *objects.Folder,
	limits *objects.Limits,
) error {
	err := s.receive(ctx, f, into, limits)
	var refused *wire.RefusedError
	if f.Filter == wire.NoFilter || !errors.As(err, &refused) || ctx.Err() != nil {
		return err
	}
	next, _, dialErr := r.dial(ctx)
	if dialErr != nil {
		return err
	}
	defer next.Close()
	f.Filter, *limits = wire.NoFilter, r.limits
	return next.receive(ctx, f, into, limits)
}

// receive requests objects and adds them to a folder. receive subtracts the received bytes and objects from the limits.
func (s session) receive(ctx context.Context, f wire.Fetch, into *objects.Folder, limits *objects.Limits) error {
	answer, err := s.Request(ctx, f.Request())
	if err != nil {
		return err
	}
	defer answer.Close()
	pack, err := wire.ReadPack(answer)
	if err != nil {
		return s.Explain(err)
	}
	n, err := into.Add(ctx, pack, *limits)
	limits.Bytes -= n
	return err
}
