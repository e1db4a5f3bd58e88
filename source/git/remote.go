package git

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"

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
