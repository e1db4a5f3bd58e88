package repository

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/memory"
	"github.com/bunsen-os/bunsen/source/oci"
	"github.com/bunsen-os/bunsen/source/tokens"
)

// MemoryOfSources is how many bytes of memory the answers of all servers may need at a time in one process: two packs
// that are unpacked, and a few long lists of refs.
const MemoryOfSources = 1 << 30

// Opener opens the repositories of one process. It has what they share: trees, fetched objects, listings, tokens and
// limits. It is safe for concurrent use, and must not be copied after the first use.
type Opener struct {
	// Now is the clock.
	Now func() time.Time
	// Store has the trees of all repositories.
	Store *Store
	// Objects has fetched objects of git; nil: each fetch receives everything.
	Objects *objects.Cache
	// Servers remembers what git servers can do; nil: each poll asks.
	Servers *transport.Servers
	// Cloud has the identity of this process at cloud providers; nil: none.
	Cloud *tokens.CloudTokens
	// Memory is the budget that all sources share; nil: no limit.
	Memory *memory.Budget

	apps     tokens.GitHubTokens
	listings Listings
	evidence Evidence
}

// Open creates the repository of a GitSource, and sends no request. Errors are Stalled faults: InvalidSpec for the
// spec, AuthenticationFailed for the Secrets, SignatureMissing for the public keys.
func (o *Opener) Open(spec v1alpha1.GitSourceSpec, secrets source.Secrets) (Repository, error) {
	if err := source.CheckSpec(spec); err != nil {
		return Repository{}, err
	}
	if source.IsArtifact(spec) {
		return o.openArtifacts(spec, secrets)
	}
	r, err := o.openGit(spec.Provider, git.Config{
		URL: spec.URL, Secret: secrets.Credentials, HostsRequired: true,
		Submodules: slices.Contains(spec.Include, v1alpha1.ContentSubmodules),
	}, secrets.Proxy)
	if err != nil {
		return Repository{}, err
	}
	r.Path, r.Ref, r.Include = spec.Path, &spec.Ref, included(spec)
	r.listings, r.commits = &o.listings, &o.evidence
	r.key = ListingKey(spec.URL, secrets.Credentials, secrets.Proxy,
		map[string][]byte{"provider": []byte(spec.Provider)})
	return r, nil
}

// included returns a text for the key of a stored tree. It names, in a fixed order, the content that the tree has
// besides the files of the commit.
func included(spec v1alpha1.GitSourceSpec) string {
	var all []string
	for _, content := range spec.Include {
		all = append(all, string(content))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// openGit creates a repository of git with the identity of a provider; "" or generic: with the keys of the Secret. The
// parameter proxy is the data of the Secret with the proxy; nil: none.
func (o *Opener) openGit(provider v1alpha1.SourceProvider, config git.Config,
	proxy map[string][]byte,
) (Repository, error) {
	config.Memory, config.Cache, config.Servers = o.Memory, o.Objects, o.Servers
	through, err := access.ParseProxy(proxy)
	if err != nil {
		return Repository{}, stalledAuth(err)
	}
	var issuedBy *issuer
	switch {
	case !isGeneric(provider):
		issuedBy, err = o.cloud(provider, config.URL, config.Secret, proxy)
		config.Identity = string(provider) + " " + identity(config.Secret)
	case tokens.DescribesGitHubApp(config.Secret):
		issuedBy, err = o.gitHubApp(config.URL, config.Secret, through)
		config.Identity = identity(config.Secret)
		config.Secret = withoutApp(config.Secret)
	}
	if err != nil {
		return Repository{}, err
	}
	return o.open(issuedBy, config.Secret, func(secret map[string][]byte) (Remote, error) {
		config := config
		config.Secret = secret
		return connectGit(config, through)
	})
}

// open creates a repository whose remote is connected with a Secret, and with the credentials of an issuer; nil: none.
func (o *Opener) open(issuedBy *issuer, secret map[string][]byte,
	connect func(secret map[string][]byte) (Remote, error),
) (Repository, error) {
	if issuedBy == nil {
		remote, err := connect(secret)
		if err != nil {
			return Repository{}, err
		}
		return Repository{Remote: remote, Store: o.Store, URL: remote.URL()}, nil
	}
	issuedBy.connect = func(credentials map[string][]byte) (Remote, error) {
		return connect(merged(merged(secret, issuedBy.hosts), credentials))
	}
	// Whether the credentials may go to the host is checked before any are requested.
	remote, err := issuedBy.connect(map[string][]byte{"bearerToken": []byte("requested-later")})
	if err != nil {
		return Repository{}, err
	}
	return Repository{tokens: issuedBy, Store: o.Store, URL: remote.URL()}, nil
}

// connectGit creates a remote of git through a proxy; nil: none.
func connectGit(config git.Config, proxy *access.Proxy) (Remote, error) {
	at, err := source.ParseURL(config.URL)
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		config.Connect = proxy.DialContext
	}
	config.HTTP = func() (transport.HTTP, error) { return access.NewConnect(at, config.Secret, proxy.Connect()) }
	return git.New(config)
}

// Repository is one folder of a repository, as a source follows it. Opener.Open creates it; a Repository without an
// Opener shares nothing with others.
type Repository struct {
	// Remote reads the repository; nil if its credentials expire, so that each request connects anew.
	Remote Remote
	// Store has the trees of commits that were fetched before.
	Store *Store
	// URL of the repository, without credentials.
	URL string
	// Path of the folder, as a GitSource's spec.path.
	Path string
	// Ref limits List to the refs that this GitRef needs; nil: List returns all refs.
	Ref *v1alpha1.GitRef
	// Include is as in StoreKey. The remote fetches this content.
	Include string
	// Trust is as in StoreKey. If it is set, a tree is stored only if the remote verified a signature of its commit.
	Trust string

	// tokens are the credentials that expire; nil if Remote has its own.
	tokens *issuer
	// listings and commits have what the sources of this repository with the same credentials read, under the key; nil:
	// nothing.
	listings *Listings
	commits  *Evidence
	key      string
}

// Remote reads one repository with one set of credentials. git.Remote and oci.Remote implement it.
type Remote interface {
	// List returns at least the refs whose names begin with one of the prefixes; without prefixes, all refs.
	List(ctx context.Context, prefixes ...string) ([]source.Ref, error)
	// Evidence returns the objects of the commits since picked.Applied, and fetches no files.
	Evidence(ctx context.Context, picked source.Picked) (source.Evidence, error)
	// Tree puts the files of a commit below path into a directory.
	Tree(ctx context.Context, picked source.Picked, path string, into source.Destination) (source.Tree, error)
	// URL returns the repository's address without credentials.
	URL() string
}

// List returns the refs of the repository, at least those that Ref needs, and when their listing began. It may be the
// listing of another source with the same address and the same credentials. If Ref names a ref that does not exist,
// List returns all branches and tags, because the error of source.Pick names them.
func (r Repository) List(ctx context.Context, poll source.Poll) (source.Listing, error) {
	if r.Ref == nil {
		refs, err := r.list(ctx, nil)
		return source.Listing{Refs: refs, At: poll.Now}, err
	}
	found, err := r.listings.List(ctx, Request{Poll: poll, Key: r.key, Prefixes: source.Prefixes(*r.Ref)}, r.list)
	if err != nil {
		return source.Listing{}, err
	}
	if _, err := source.Pick(found.Refs, *r.Ref); fault.Of(err, "").Reason != v1alpha1.ReasonRefNotFound {
		return found, nil
	}
	refs, err := r.list(ctx, []string{"HEAD", "refs/heads/", "refs/tags/"})
	return source.Listing{Refs: refs, At: poll.Now}, err
}

// list requests the refs with the prefixes.
func (r Repository) list(ctx context.Context, prefixes []string) (refs []source.Ref, err error) {
	err = r.connect(ctx, func(remote Remote) error {
		refs, err = remote.List(ctx, prefixes...)
		return err
	})
	return refs, err
}

// connect calls do with the remote. If its credentials expire, it gets valid ones first; if the remote refuses them,
// the next call gets new ones.
func (r Repository) connect(ctx context.Context, do func(Remote) error) error {
	if r.tokens == nil {
		return do(r.Remote)
	}
	credentials, err := r.tokens.credentials(ctx)
	if err != nil {
		return err
	}
	remote, err := r.tokens.connect(credentials)
	if err != nil {
		return err
	}
	err = do(remote)
	if err == nil || fault.Of(err, "").Reason != v1alpha1.ReasonAuthentication {
		return err
	}
	r.tokens.forget(credentials)
	if r.tokens.advice == "" {
		return err
	}
	f := fault.Of(err, "")
	f.Err = errors.New(strings.ReplaceAll(f.Err.Error(), access.CheckAdvice, r.tokens.advice))
	return f
}

// Tree returns a commit's files, from the store if the store has them. Errors are those of the remote and of the store.
func (r Repository) Tree(ctx context.Context, picked source.Picked) (source.Tree, error) {
	folder, err := source.CleanPath(r.Path)
	if err != nil {
		return source.Tree{}, err
	}
	k := StoreKey{URL: r.URL, Hash: picked.Hash, Path: folder, Trust: r.Trust, Include: r.Include}
	tree, ok, err := r.Store.Get(k)
	if err == nil && !ok {
		tree, err = r.Store.Put(k, func(into source.Destination) (source.Tree, error) {
			return r.Fetch(ctx, picked, into)
		})
	}
	if err != nil {
		return source.Tree{}, err
	}
	tree.Commit.Ref = picked.Ref
	return tree, nil
}

// Fetch is Tree without the store: it always reads the files from the remote, into a directory. It fails if Trust is
// set and the remote verified no signature.
func (r Repository) Fetch(ctx context.Context, picked source.Picked, into source.Destination) (source.Tree, error) {
	folder, err := source.CleanPath(r.Path)
	if err != nil {
		return source.Tree{}, err
	}
	var tree source.Tree
	err = r.connect(ctx, func(remote Remote) error {
		tree, err = remote.Tree(ctx, picked, folder, into)
		return err
	})
	if err == nil && r.Trust != "" && tree.Commit.Signer == "" {
		return source.Tree{}, fmt.Errorf("fetching %s: a signature is required, but the remote verified none",
			picked.Revision().Short())
	}
	return tree, err
}

// Evidence returns the objects of the commits that a commit adds to picked.Applied, and the relation of both commits.
// Another source may have read them.
func (r Repository) Evidence(ctx context.Context, picked source.Picked) (source.Evidence, error) {
	return r.commits.Read(ctx, r.key, picked, r.evidence)
}

// evidence requests the objects of the commits.
func (r Repository) evidence(ctx context.Context, picked source.Picked) (e source.Evidence, err error) {
	err = r.connect(ctx, func(remote Remote) error {
		e, err = remote.Evidence(ctx, picked)
		return err
	})
	return e, err
}

// OpenGit creates a repository of git that no GitSource describes, at the root of the repository and with all refs. It
// sends no request. The limits and caches of the Opener replace those of config. Errors are those of Open.
func (o *Opener) OpenGit(config git.Config) (Repository, error) { return o.openGit("", config, nil) }

// openArtifacts creates a repository of an OCI registry, which checks signatures itself.
func (o *Opener) openArtifacts(spec v1alpha1.GitSourceSpec, secrets source.Secrets) (Repository, error) {
	config := oci.Config{
		URL: spec.URL, Ref: spec.Ref, Secret: secrets.Credentials, HostsRequired: true, Memory: o.Memory,
	}
	trust := ""
	if spec.Verify != nil { // If the Secret is empty, the verification of signatures fails.
		keys, err := oci.ParseKeys(secrets.Keys)
		if err != nil {
			return Repository{}, err
		}
		config.Keys, trust = &keys, keys.Digest()
	}
	through, err := access.ParseProxy(secrets.Proxy)
	if err != nil {
		return Repository{}, stalledAuth(err)
	}
	var issuedBy *issuer
	if !isGeneric(spec.Provider) {
		if issuedBy, err = o.cloud(spec.Provider, config.URL, config.Secret, secrets.Proxy); err != nil {
			return Repository{}, err
		}
	}
	r, err := o.open(issuedBy, config.Secret, func(secret map[string][]byte) (Remote, error) {
		config := config
		config.Secret = secret
		return connectArtifacts(config, through)
	})
	r.Path, r.Trust = spec.Path, trust
	return r, err
}

// connectArtifacts creates a remote of a registry through a proxy; nil: none.
func connectArtifacts(config oci.Config, proxy *access.Proxy) (Remote, error) {
	at, err := source.ParseURL(config.URL)
	if err != nil {
		return nil, err
	}
	base, err := access.NewConnect(at, config.Secret, proxy.Connect())
	if err != nil {
		return nil, stalledAuth(err)
	}
	config.Transport = base.WithoutKeepAlive() // A remote has no Close.
	return oci.New(config)
}

func stalledAuth(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	return fault.NewStalled(v1alpha1.ReasonAuthentication, err)
}
