package repository

import (
	"context"
	"errors"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/git/transport"
	"github.com/bunsen-os/bunsen/source/oci"
	"github.com/bunsen-os/bunsen/source/tokens"

	"github.com/bunsen-os/bunsen/source/memory"
)

// MemoryOfSources is how many bytes of memory the answers of all servers may need at a time in one process: two packs
// that are unpacked, and a few long lists of refs.
const MemoryOfSources = 1 << 30

// Connector opens repositories. All sources of a Connector share the tokens of GitHub Apps. Connector is safe for
// concurrent use.
type Connector struct {
	// Now is the clock.
	Now func() time.Time
	// Cloud has the identity of this process at cloud providers. OpenAs and ArtifactsAs require it.
	Cloud *tokens.CloudTokens
	// Memory is the budget that all sources share; nil: no limit.
	Memory *memory.Budget
	apps   tokens.GitHubTokens
}

// Remote is a repository that Repository reads.
type Remote interface {
	StoredRemote
	// URL returns the repository's address without credentials.
	URL() string
}

// GitRemote is a repository of git.
type GitRemote interface {
	Remote
	// ListPrefixes returns at least the refs whose names begin with one of the prefixes.
	ListPrefixes(ctx context.Context, prefixes []string) ([]source.Ref, error)
}

// Open checks the configuration of a repository and sends no request. The parameter proxy is the data of the Secret
// with the proxy; nil: none. Errors are Stalled faults: InvalidSpec for the URL, AuthenticationFailed for the Secrets.
func (c *Connector) Open(config git.Config, proxy map[string][]byte) (GitRemote, error) {
	config.Memory = c.Memory
	through, err := access.ParseProxy(proxy)
	if err != nil {
		return nil, stalledAuth(err)
	}
	if tokens.DescribesGitHubApp(config.Secret) {
		return c.openApp(config, through)
	}
	return openGit(config, through)
}

// openGit opens a repository of git through a proxy; nil: none.
func openGit(config git.Config, proxy *access.Proxy) (*git.Remote, error) {
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

// openApp opens a repository whose Secret describes a GitHub App.
func (c *Connector) openApp(config git.Config, proxy *access.Proxy) (GitRemote, error) {
	at, err := source.ParseURL(config.URL)
	if err != nil {
		return nil, err
	}
	client, err := access.Client(at, config.Secret, proxy.Connect())
	if err != nil {
		return nil, stalledAuth(err)
	}
	app, err := tokens.ParseGitHubApp(config.Secret, at, client)
	if err != nil {
		return nil, stalledAuth(err)
	}
	config.Identity = identity(config.Secret)
	return newIssuedGit(config, proxy, tokens.GitHubAppKeys(), &appIssuer{&c.apps, app, c.Now})
}

// Artifacts opens a repository of an OCI registry and sends no request. The parameter keys is the data of the Secret
// with the public keys; nil: no signature is required. The result trust is the digest of these keys. The parameter
// proxy is as for Open. Errors are Stalled faults.
func (c *Connector) Artifacts(config oci.Config, keys,
	proxy map[string][]byte,
) (remote Remote, trust string, err error) {
	if keys != nil {
		trusted, err := oci.ParseKeys(keys)
		if err != nil {
			return nil, "", err
		}
		config.Keys, trust = &trusted, trusted.Digest()
	}
	through, err := access.ParseProxy(proxy)
	if err != nil {
		return nil, "", stalledAuth(err)
	}
	at, err := source.ParseURL(config.URL)
	if err != nil {
		return nil, "", err
	}
	base, err := access.NewConnect(at, config.Secret, through.Connect())
	if err != nil {
		return nil, "", stalledAuth(err)
	}
	config.Memory = c.Memory
	config.Transport = base.WithoutKeepAlive() // a repository has no Close
	artifacts, err := oci.New(config)
	if err != nil {
		return nil, "", err
	}
	return artifacts, trust, nil
}

func stalledAuth(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	return fault.NewStalled(v1alpha1.ReasonAuthentication, err)
}
