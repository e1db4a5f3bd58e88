package repository

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	sourceaccess "github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/tokens"

	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/oci"
)

// OpenAs is Open with the identity of this process at a provider. With the provider "" or generic, OpenAs is the same
// as Open.
func (c *Connector) OpenAs(provider v1alpha1.SourceProvider, config git.Config,
	proxy map[string][]byte,
) (GitRemote, error) {
	if isGeneric(provider) {
		return c.Open(config, proxy)
	}
	issuer, hosts, err := c.identify(provider, config.URL, config.Secret, proxy)
	if err != nil {
		return nil, err
	}
	through, err := sourceaccess.ParseProxy(proxy)
	if err != nil {
		return nil, stalledAuth(err)
	}
	config.Memory = c.Memory
	config.Identity = string(provider) + " " + identity(config.Secret)
	config.Secret = merged(config.Secret, hosts)
	return newIssuedGit(config, through, nil, issuer)
}

// ArtifactsAs is Artifacts with the identity of this process at a provider. With the provider "" or generic,
// ArtifactsAs is the same as Artifacts.
func (c *Connector) ArtifactsAs(provider v1alpha1.SourceProvider, config oci.Config, keys,
	proxy map[string][]byte,
) (remote Remote, trust string, err error) {
	if isGeneric(provider) {
		return c.Artifacts(config, keys, proxy)
	}
	issuer, hosts, err := c.identify(provider, config.URL, config.Secret, proxy)
	if err != nil {
		return nil, "", err
	}
	remote, err = newIssued(issuer, func(issued map[string][]byte) (opened Remote, err error) {
		config := config
		config.Secret = merged(merged(config.Secret, hosts), issued)
		opened, trust, err = c.Artifacts(config, keys, proxy)
		return opened, err
	})
	return remote, trust, err
}

func isGeneric(provider v1alpha1.SourceProvider) bool {
	return provider == "" || provider == v1alpha1.ProviderGeneric
}

// identify returns the issuer of a provider's credentials, and the list of hosts to which these may go: only the host
// of the URL.
func (c *Connector) identify(provider v1alpha1.SourceProvider, url string, secret,
	proxy map[string][]byte,
) (Issuer, map[string][]byte, error) {
	at, err := source.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	if err := tokens.CheckCloudHost(provider, at); err != nil {
		return nil, nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec, err)
	}
	if c.Cloud == nil {
		return nil, nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec,
			errors.New("this program has no identity at a cloud provider: remove spec.provider"))
	}
	if err := sourceaccess.CheckKeys(secret, []string{"ca.crt"}); err != nil {
		return nil, nil, stalledAuth(fmt.Errorf("spec.provider %s needs no credentials: %w", provider, err))
	}
	through, err := sourceaccess.ParseProxy(proxy)
	if err != nil {
		return nil, nil, stalledAuth(err)
	}
	// The writer of the Secret must not get the identity, so its ca.crt is for the repository only.
	var authorities map[string][]byte
	if c.Cloud.Authorities != nil {
		authorities = map[string][]byte{"ca.crt": c.Cloud.Authorities}
	}
	client, err := sourceaccess.Client(at, authorities, through.Connect())
	if err != nil {
		return nil, nil, stalledAuth(err)
	}
	access := tokens.CloudAccess{Provider: provider}
	if proxy != nil {
		access.Proxy = identity(proxy)
	}
	hosts := map[string][]byte{sourceaccess.HostsKey: []byte(sourceaccess.Endpoint(at))}
	return &cloudIssuer{c.Cloud, access, client, c.Now}, hosts, nil
}

// cloudIssuer issues the tokens of an identity at a cloud provider.
type cloudIssuer struct {
	tokens *tokens.CloudTokens
	access tokens.CloudAccess
	client *http.Client
	now    func() time.Time
}

// Credentials returns credentials of the provider.
func (i *cloudIssuer) Credentials(ctx context.Context) (map[string][]byte, error) {
	return i.tokens.Credentials(ctx, i.access, i.client, i.now())
}

// advice says what to do if the host refuses the credentials. Errors have this text in place of
// access.CheckAdvice.
func (i *cloudIssuer) advice() string {
	return fmt.Sprintf("let the identity of the controller's pod read the repository, because spec.provider is %s",
		i.access.Provider)
}

// Forget drops refused credentials.
func (i *cloudIssuer) Forget(refused map[string][]byte) { i.tokens.Forget(i.access, refused) }
