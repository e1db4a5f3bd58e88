package git

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/credentials"
)

// Config names a repository and the credentials and limits to read it.
type Config struct {
	// URL as in GitSource's spec.url.
	URL string
	// Secret is the data of the Secret that the spec names, or nil: `username`+`password` or `bearerToken`, `ca.crt`, and
	// `tls.crt`+`tls.key` for https; `identity`, `known_hosts` and, for an encrypted identity, `password` for ssh. `hosts`
	// lists the hosts that the credentials are for. New returns an error for any other key.
	Secret map[string][]byte
	// HostsRequired rejects a Secret with credentials for https that does not list its hosts. Set it if the URL comes
	// from a user who is not the Secret's owner.
	HostsRequired bool
	// Limits of a tree on disk.
	Limits source.Limits
	// PackBytes is the most that one fetch may receive; 0 is 64 MiB. The unpacked data may be eight times as large.
	PackBytes int64
	// Verify checks the signature of a commit object, as Snapshot.Object returns it, and returns the signer. If Verify
	// is nil, no signature is required. It is called before any part of the commit is used. Its errors should be
	// faults.
	Verify func(object []byte) (signer string, err error)
}

const (
	defaultPackBytes = 64 << 20
	inflation        = 8
	maxObjects       = 500_000
)

// Remote is one repository. It has no open connection while no method runs, and is safe for concurrent use.
type Remote struct {
	url    string
	limits source.Limits
	hide   secrets
	repo   repository
	verify func(object []byte) (signer string, err error)
}

// repository reads a repository over a network protocol or on this machine.
type repository interface {
	list(ctx context.Context) ([]source.Ref, error)
	fetch(ctx context.Context, p source.Picked) (ObjectReader, error)
	descends(ctx context.Context, older, newer string) (source.Descent, error)
}

// New checks the configuration. It opens no connection. Errors are Stalled faults: InvalidSpec for the URL,
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
	if err := errors.Join(checkKeys(c.Secret), credentials.CheckHosts(a, c.Secret, c.HostsRequired)); err != nil {
		return nil, r.hide.stalledAuth(err)
	}
	switch a.Transport {
	case source.OCI:
		return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec, fmt.Errorf("url %q is an OCI registry, not a git server", a.String()))
	case source.Local:
		r.repo = local{path: a.Path}
	case source.SSH:
		dial, err := newSSH(a, c.Secret, c.PackBytes)
		if err != nil {
			return nil, r.hide.stalledAuth(err)
		}
		r.repo = wired{dial, c.PackBytes}
	default:
		dial, err := newHTTP(a, c.Secret, c.PackBytes)
		if err != nil {
			return nil, r.hide.stalledAuth(err)
		}
		r.repo = wired{dial, c.PackBytes}
	}
	return r, nil
}

// URL returns the repository's address without credentials.
func (r *Remote) URL() string { return r.url }

// List returns the remote's refs in lexical order, HEAD first; an empty repository has none. Over http it sends one request. Errors are faults with RepositoryUnreachable or AuthenticationFailed.
func (r *Remote) List(ctx context.Context) ([]source.Ref, error) {
	refs, err := r.repo.list(ctx)
	if err != nil {
		return nil, r.explain(ctx, "listing the refs of "+r.url, err)
	}
	return refs, nil
}

// Fetch stores one commit with all its files and without its history on disk, until the snapshot is closed. If the server
// serves only commits that a ref points at, Fetch reads the history of the picked ref instead, under the same limit.
//
// Errors are faults: those of List; RefNotFound if the repository does not have the commit; InvalidTree if it is damaged or
// too large; those of Verify.
func (r *Remote) Fetch(ctx context.Context, p source.Picked) (*Snapshot, error) {
	doing := fmt.Sprintf("fetching %s from %s", p.Revision().Short(), r.url)
	store, err := r.repo.fetch(ctx, p)
	if err != nil {
		return nil, r.explain(ctx, doing, err)
	}
	s, err := newSnapshot(store, r.url, p)
	if err == nil && r.verify != nil {
		s.commit.Signer, err = r.verify(s.raw)
	}
	if err != nil {
		(&Snapshot{store: store}).Close()
		return nil, r.explain(ctx, doing, err)
	}
	s.limits = r.limits
	return s, nil
}

// Tree fetches a commit and puts the files below path into the folder into: Fetch and Materialise in one.
func (r *Remote) Tree(ctx context.Context, p source.Picked, path, into string) (source.Tree, error) {
	s, err := r.Fetch(ctx, p)
	if err != nil {
		return source.Tree{}, err
	}
	defer s.Close()
	return s.Materialise(ctx, path, into)
}

// Descends reports whether older is an ancestor of newer. Only for a local repository is that known, because a fetch of
// one commit has no history. For other repositories it returns Unknown, unless both commits are the same.
func (r *Remote) Descends(ctx context.Context, older, newer string) (source.Descent, error) {
	if older == newer {
		return source.Descends, nil
	}
	d, err := r.repo.descends(ctx, older, newer)
	if err != nil {
		return source.Unknown, r.explain(ctx, "reading the history of "+r.url, err)
	}
	return d, nil
}
