package git

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/source"

	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
)

// commitLimits are the limits of the pack for a fetch of commits without files.
var commitLimits = objects.Limits{Bytes: 16 << 20, Unpacked: 32 << 20, Objects: 200_000}

// commitLimits returns these limits with the share of memory.
func (r remoteRepository) commitLimits() objects.Limits {
	limits := commitLimits
	limits.Hold = r.limits.Hold
	return limits
}

// Evidence returns what a check of signatures and of the history reads, before any file is fetched: the commit, the
// object of its tag, and the commits since the applied commit. The Descent is Unknown if no commit is applied, if the
// history has more than 32 MiB, or if the server can only send whole commits with their files.
//
// Errors are as those of Fetch.
func (r *Remote) Evidence(ctx context.Context, p source.Picked) (source.Evidence, error) {
	e, err := r.repo.evidence(ctx, p)
	if err != nil {
		return source.Evidence{}, r.explain(ctx, fmt.Sprintf("reading the commits of %s from %s", p.Revision().Short(),
			r.url), err)
	}
	return e, nil
}

func (r remoteRepository) evidence(ctx context.Context, p source.Picked) (source.Evidence, error) {
	folder, err := objects.Temp()
	if err != nil {
		return source.Evidence{}, err
	}
	defer folder.Close()
	complete, err := r.fetchCommits(ctx, p, folder)
	if err != nil {
		return source.Evidence{}, err
	}
	e, err := EvidenceOf(ctx, folder, p, complete)
	if err != nil || !complete || e.Descent != source.Unknown {
		return e, err
	}
	// A merge brought a branch that began before the applied commit. Only the history of the applied commit shows
	// whether what the server left out belongs to it.
	if err := r.fetchAncestors(ctx, p, folder); err != nil {
		return source.Evidence{}, err
	}
	return EvidenceOf(ctx, folder, p, true)
}

// fetchAncestors fetches the history of the commit and of the applied commit without files, within the limits. It is no
// error if the server does not send all of it.
func (r remoteRepository) fetchAncestors(ctx context.Context, p source.Picked, folder *objects.Folder) error {
	for _, wants := range [][]string{{p.Hash, p.Applied}, {p.Hash}} {
		s, _, err := r.dial(ctx)
		if errors.Is(err, errVersion0) {
			s.Close()
			return nil // It sent all that it has.
		}
		if err != nil {
			return err
		}
		f, limits := transport.FetchRequest{Wants: wants}, r.limits
		if s.capabilities.Filters() {
			f.Filter, limits = transport.CommitsOnly, r.commitLimits()
		}
		err = r.receive(ctx, s, f, folder, &limits)
		s.Close()
		var refused *transport.RefusedError
		if !errors.As(err, &refused) { // The applied commit may be gone from the server.
			if fault.Of(err, "").Kind == fault.Stalled {
				return nil // The history is larger than the limit.
			}
			return err
		}
	}
	return nil
}

// fetchCommits fetches the commit, the object of its tag and, if the server can do that, the history since the applied
// commit. fetchCommits reports whether the history is complete.
func (r remoteRepository) fetchCommits(ctx context.Context, p source.Picked, folder *objects.Folder) (bool, error) {
	s, first, err := r.dial(ctx)
	if errors.Is(err, errVersion0) {
		defer s.Close()
		old, err := version0(s, first)
		if err != nil {
			return false, err
		}
		return r.fetchCommits0(ctx, p, old, folder)
	}
	if err != nil {
		return false, err
	}
	defer s.Close()
	f := transport.FetchRequest{Wants: []string{p.Hash}}
	if p.TagObject != "" {
		f.Wants = append(f.Wants, p.TagObject)
	}
	limits := r.limits
	if s.capabilities.Filters() {
		f.Filter, limits = transport.CommitsOnly, r.commitLimits()
	}
	if p.Applied == "" {
		f.Depth = 1
		return false, r.explainRefusal(ctx, p, r.receive(ctx, s, f, folder, &limits))
	}
	f.Haves = []string{p.Applied}
	err = r.receive(ctx, s, f, folder, &limits)
	switch {
	case err != nil && fault.Of(err, "").Kind != fault.Stalled:
		return false, r.explainRefusal(ctx, p, err)
	case err == nil && folder.HasEncodedObject(plumbing.NewHash(p.Hash)) == nil:
		return true, nil
	}
	// Either the history is larger than the limit, or the commit is older than the applied commit, so the server did
	// not send it. The server may still be sending the rest of an answer that is too large, so the next request needs a
	// session of its own.
	older := err == nil
	next, _, err := r.dial(ctx)
	if err != nil {
		return false, err
	}
	defer next.Close()
	f.Haves, f.Depth, limits = nil, 1, r.limits
	return older, r.receive(ctx, next, f, folder, &limits)
}

// fetchCommits0 is fetchCommits for servers that speak only version 0 of git's protocol. It requests the whole history
// without files, or one commit with its files.
func (r remoteRepository) fetchCommits0(ctx context.Context, p source.Picked, s session0,
	folder *objects.Folder,
) (bool, error) {
	wants := []plumbing.Hash{plumbing.NewHash(p.Hash)}
	if p.TagObject != "" {
		wants = append(wants, plumbing.NewHash(p.TagObject))
	}
	if s.adv.Capabilities.Supports(capability.Filter) && p.Applied != "" && isTip(s.adv, wants[0]) {
		limits := r.commitLimits()
		err := s.receive(ctx, request0{wants: wants, filter: transport.CommitsOnly}, folder, &limits)
		if err == nil || fault.Of(err, "").Kind != fault.Stalled {
			return err == nil, err
		}
	} else if len(wants) > 1 {
		limits := r.limits
		if err := s.receive(ctx, request0{wants: wants[1:], depth: 1}, folder, &limits); err != nil {
			return false, err
		}
	} else {
		return false, r.fetchVersion0(ctx, p, s, folder)
	}
	next, err := r.again(ctx)
	if err != nil {
		return false, fmt.Errorf("opening another session: %w", err)
	}
	defer next.Close()
	return false, r.fetchVersion0(ctx, p, next, folder)
}
