package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"

	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/memory"
)

// Config names a repository of a registry, and the credentials and limits to read it.
type Config struct {
	// URL is an address as in GitSource's spec.url: oci://host/name.
	URL string
	// Ref is the tag, the range of versions or the digest to follow. If Ref names none, the source follows the tag
	// `latest`.
	Ref v1alpha1.GitRef
	// Secret is the data of the Secret that the spec names, or nil: `username`+`password` or `bearerToken`, `ca.crt`,
	// and `tls.crt`+`tls.key`. `hosts` lists the hosts that the credentials are for: the registry, and its token
	// service if that has another host.
	Secret map[string][]byte
	// HostsRequired rejects a Secret with credentials that does not list its hosts.
	HostsRequired bool
	// Limits of the files.
	Limits source.Limits
	// Transport connects to the registry, with the certificates of the Secret. Transport must not keep connections
	// open.
	Transport http.RoundTripper
	// Memory is the budget that the sources of a process share; nil: no limit.
	Memory *memory.Budget
	// Keys must have signed the artifact. If Keys is nil, no signature is required.
	Keys *Keys
}

// Remote is one repository of a registry. Remote is safe for concurrent use.
type Remote struct {
	url    string
	ref    v1alpha1.GitRef
	limits source.Limits
	keys   *Keys
	repo   *remote.Repository
}

const (
	defaultTag = "latest"
	maxTags    = 20_000
	tagPrefix  = "refs/tags/"
)

// secretKeys are the keys of a Secret that a connection to a registry uses.
var secretKeys = []string{"bearerToken", "ca.crt", access.HostsKey, "password", "tls.crt", "tls.key", "username"}

// New checks the configuration and sends no request. Errors are Stalled faults: InvalidSpec for the URL and the ref,
// AuthenticationFailed for the Secret.
func New(c Config) (*Remote, error) {
	a, err := source.ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Ref.Branch != "" || c.Ref.Name != "" || c.Ref.Commit != "" {
		return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec, errors.New("an OCI repository has no branches and "+
			"commits: set ref.tag, ref.semver or ref.digest, and no other field of ref"))
	}
	at, err := referenceOf(a)
	if err != nil {
		return nil, err
	}
	client, err := newClient(a, at, c)
	if err != nil {
		return nil, fault.NewStalled(v1alpha1.ReasonAuthentication, err)
	}
	return &Remote{
		url: a.String(), ref: c.Ref, limits: c.Limits.OrDefault(), keys: c.Keys,
		repo: &remote.Repository{Client: client, Reference: at, TagListPageSize: 1000, MaxMetadataBytes: maxManifest},
	}, nil
}

// newClient returns a client that authenticates with the Secret.
func newClient(a source.Address, at registry.Reference, c Config) (*auth.Client, error) {
	if err := errors.Join(access.CheckKeys(c.Secret, secretKeys), access.CheckHosts(a, c.Secret,
		c.HostsRequired), access.CheckLogin(c.Secret)); err != nil {
		return nil, err
	}
	user, password, token := string(c.Secret["username"]), string(c.Secret["password"]), string(c.Secret["bearerToken"])
	own := auth.Credential{Username: user, Password: password, AccessToken: token}
	return &auth.Client{
		Client: (&guard{
			base: c.Transport, registry: at.Host(),
			to: access.RecipientsOf(a, c.Secret), memory: c.Memory,
			lacksPassword: token != "" || (user == "") != (password == ""),
		}).client(),
		Credential: func(_ context.Context, host string) (auth.Credential, error) {
			if host == at.Host() {
				return own, nil
			}
			return auth.EmptyCredential, nil
		},
		Cache: auth.NewCache(),
	}, nil
}

// URL returns the repository's address.
func (r *Remote) URL() string { return r.url }

// List returns the tag to follow, with the digest of its manifest as hash. For a range of versions, List first lists
// the tags of the repository. For a digest, List checks that the registry has the manifest. Prefixes have no effect,
// because the ref is known. Errors are faults: RefNotFound, RepositoryUnreachable or AuthenticationFailed.
func (r *Remote) List(ctx context.Context, _ ...string) ([]source.Ref, error) {
	doing := "listing the tags of " + r.url
	tag := r.ref.Tag
	switch {
	case r.ref.Digest != "":
		_, err := r.digest(ctx, doing, r.ref.Digest)
		return nil, err
	case r.ref.SemVer != "":
		picked, err := r.newest(ctx, doing)
		if err != nil {
			return nil, err
		}
		tag = picked
	case tag == "":
		tag = defaultTag
	}
	hash, err := r.digest(ctx, doing, tag)
	if err != nil {
		return nil, err
	}
	refs := []source.Ref{{Name: tagPrefix + tag, Hash: hash}}
	if r.ref.Tag == "" && r.ref.SemVer == "" {
		refs = append([]source.Ref{{Name: "HEAD", Hash: hash, Target: tagPrefix + tag}}, refs...)
	}
	return refs, nil
}

// newest returns the tag with the highest version in the range.
func (r *Remote) newest(ctx context.Context, doing string) (string, error) {
	var refs []source.Ref
	err := r.repo.Tags(ctx, "", func(tags []string) error {
		for _, tag := range tags {
			// Refs without hashes are enough, because the choice does not depend on hashes.
			refs = append(refs, source.Ref{Name: tagPrefix + tag, Hash: "unknown"})
		}
		if len(refs) > maxTags {
			return fault.NewStalled(v1alpha1.ReasonRefNotFound,
				fmt.Errorf("the repository has more than %d tags: set ref.tag", maxTags))
		}
		return nil
	})
	if err != nil {
		return "", explain(ctx, doing, err)
	}
	picked, err := source.Pick(refs, v1alpha1.GitRef{SemVer: r.ref.SemVer})
	return picked.Ref, err
}

// digest returns the digest of the manifest at a tag or digest, in hex.
func (r *Remote) digest(ctx context.Context, doing, reference string) (string, error) {
	found, err := r.repo.Resolve(ctx, reference)
	if isNotFound(err) {
		return "", fault.NewStalled(v1alpha1.ReasonRefNotFound,
			fmt.Errorf("%s: the registry has no artifact %q, or hides it from these credentials: push it, or "+
				"correct ref", doing, reference))
	}
	if err != nil {
		return "", explain(ctx, doing, err)
	}
	hash, ok := strings.CutPrefix(found.Digest.String(), "sha256:")
	if !ok || found.Digest.Validate() != nil {
		return "", fault.NewStalled(v1alpha1.ReasonInvalidTree,
			fmt.Errorf("%s: the digest of %q is not a SHA-256: push the artifact again", doing, reference))
	}
	return hash, nil
}

// Evidence always returns the relation Descends: artifacts have no history, and a registry moves its tags. Tree checks
// the signature of an artifact.
func (r *Remote) Evidence(context.Context, source.Picked) (source.Evidence, error) {
	return source.Evidence{Descent: source.Descends}, nil
}
