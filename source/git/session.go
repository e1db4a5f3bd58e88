package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/git/wire"
)

// remoteRepository is a repository that Bunsen reads over a network protocol.
type remoteRepository struct {
	dialer transport.Dialer
	cache  *objects.Cache // nil: each fetch brings everything
	key    string         // of the cache
	limits objects.Limits
	// modules: a fetch brings the file .gitmodules too, wherever its path is.
	modules bool
}

// session is a session in version 2 of the protocol.
type session struct {
	transport.Session
	capabilities wire.Capabilities
}

// errVersion0 is returned for a server that does not speak version 2. The session stays open.
var errVersion0 = errors.New("the server speaks version 0 of the protocol")

// dial opens a session. If the server does not speak version 2, it returns errVersion0 and the session with its first message.
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
		err = fmt.Errorf("the server announces object-format=%s", source.Line(c.ObjectFormat()))
	}
	if err != nil {
		err = s.Explain(err)
		_ = s.Close() // the first error counts
		return session{}, nil, err
	}
	return session{Session: s, capabilities: c}, nil, nil
}

// list returns the refs that begin with one of the prefixes; without prefixes all.
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

// receive requests objects in a session. A server may announce filters and refuse one of them: then all objects are requested.
func (r remoteRepository) receive(ctx context.Context, s session, f wire.Fetch, into *objects.Folder, limits *objects.Limits) error {
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

// receive requests objects and adds them to a folder. It reduces the limits by what it received.
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
