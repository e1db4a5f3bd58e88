package repository

import (
	"errors"
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

	apps   tokens.GitHubTokens
	shared shared
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
	r.shared = &o.shared
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

// OpenGit creates a repository of git that no GitSource describes, at the root of the repository and with all refs. It
// sends no request. The limits and caches of the Opener replace those of config. Errors are those of Open.
func (o *Opener) OpenGit(config git.Config) (Repository, error) { return o.openGit("", config, nil) }

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
