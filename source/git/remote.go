package git

import (
	"context"
	"fmt"

	"github.com/bunsen-os/bunsen/source"
)

// Config says which repository to reach, with what.
type Config struct {
	// URL as in GitSource's spec.url.
	URL string
	// Secret is the data of the Secret that the spec names, or nil: `username`+`password` or `bearerToken`, and `ca.crt`
	// for https; `identity`, `known_hosts` and, for an encrypted identity, `password` for ssh. `hosts` lists the hosts that
	// the credentials are for.
	Secret map[string][]byte
	// HostsRequired refuses a Secret with credentials for https that does not list its hosts. Set it where a user other
	// than the Secret's owner chooses the URL.
	HostsRequired bool
	// Limits of a tree that is put on disk.
	Limits source.Limits
	// PackBytes is what one fetch may receive at most; 0 is 64 MiB. Unpacked it may be eight times as much.
	PackBytes int64
	// Verify judges a commit object, as Snapshot.Object returns it, and names the signer; nil asks for no signature. It
	// is called before anything of the commit is used. Its errors should be faults.
	Verify func(object []byte) (signer string, err error)
}

const (
	defaultPackBytes = 64 << 20
	inflation        = 8
	maxObjects       = 500_000
)

// Remote is one repository. It holds no connection while no method runs, and is safe for concurrent use.
type Remote struct {
	url    string
	limits source.Limits
	hide   secrets
	repo   repository
	verify func(object []byte) (signer string, err error)
}

// repository is a way to reach one: over a wire, or on this machine.
type repository interface {
	list(ctx context.Context) ([]source.Ref, error)
	fetch(ctx context.Context, p source.Picked) (objects, error)
	descends(ctx context.Context, older, newer string) (source.Descent, error)
}

// New checks the configuration and connects to nothing yet. Errors are Stalled faults: InvalidSpec for the URL,
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
	if err := checkHosts(a, c.Secret, c.HostsRequired); err != nil {
		return nil, r.hide.stalledAuth(err)
	}
	switch a.Transport {
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

// List returns the remote's refs in lexical order, HEAD first; an empty repository has none. It costs one listing: one
// request over http. Errors are faults with RepositoryUnreachable or AuthenticationFailed.
func (r *Remote) List(ctx context.Context) ([]source.Ref, error) {
	refs, err := r.repo.list(ctx)
	if err != nil {
		return nil, r.explain(ctx, "listing the refs of "+r.url, err)
	}
	return refs, nil
}

// Fetch gets one commit without its history, and all its files, onto the disk until the snapshot is closed. Where the server gives out no single commit
// but those that a ref points at, the history of the picked ref is fetched instead, under the same limit.
//
// Errors are faults: as List's; RefNotFound where the repository does not have the commit; InvalidTree where it is
// damaged or too large; Verify's where the commit does not pass.
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

// Descends says whether the commit newer has older among its ancestors. Only a local repository knows: a fetch of one
// commit brings no history, so for any other the answer is Unknown unless both are the same.
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
