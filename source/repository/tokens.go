package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/tokens"
)

// issuer issues credentials that expire soon, such as the token of a GitHub App.
type issuer struct {
	// credentials returns keys of a Secret with valid credentials for https. Errors are faults.
	credentials func(ctx context.Context) (map[string][]byte, error)
	// forget drops credentials that the remote refused.
	forget func(refused map[string][]byte)
	// connect creates the remote with credentials.
	connect func(credentials map[string][]byte) (Remote, error)
	// hosts is the key of a Secret that says to which hosts the credentials may go; nil: the Secret has it.
	hosts map[string][]byte
	// advice says what to do if the host refuses the credentials, in place of access.CheckAdvice; empty: that.
	advice string
}

// gitHubApp returns the tokens of a GitHub App.
func (o *Opener) gitHubApp(url string, secret map[string][]byte, proxy *access.Proxy) (*issuer, error) {
	at, err := source.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client, err := access.Client(at, secret, proxy.Connect())
	if err != nil {
		return nil, stalledAuth(err)
	}
	app, err := tokens.ParseGitHubApp(secret, at, client)
	if err != nil {
		return nil, stalledAuth(err)
	}
	return &issuer{
		credentials: func(ctx context.Context) (map[string][]byte, error) {
			token, err := o.apps.Token(ctx, app, o.Now())
			if err != nil {
				return nil, err
			}
			return map[string][]byte{"username": []byte("x-access-token"), "password": []byte(token)}, nil
		},
		forget: func(refused map[string][]byte) { o.apps.Forget(app, string(refused["password"])) },
	}, nil
}

// withoutApp returns the keys of a Secret that do not describe its GitHub App.
func withoutApp(secret map[string][]byte) map[string][]byte {
	out := maps.Clone(secret)
	maps.DeleteFunc(out, func(key string, _ []byte) bool { return slices.Contains(tokens.GitHubAppKeys(), key) })
	return out
}

// cloud returns the credentials of this process at a cloud provider. They may go to the host of the URL only.
func (o *Opener) cloud(provider v1alpha1.SourceProvider, url string, secret,
	proxy map[string][]byte,
) (*issuer, error) {
	at, err := source.ParseURL(url)
	if err != nil {
		return nil, err
	}
	if err := tokens.CheckCloudHost(provider, at); err != nil {
		return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec, err)
	}
	if o.Cloud == nil {
		return nil, fault.NewStalled(v1alpha1.ReasonInvalidSpec,
			errors.New("this program has no identity at a cloud provider: remove spec.provider"))
	}
	if err := access.CheckKeys(secret, []string{"ca.crt"}); err != nil {
		return nil, stalledAuth(fmt.Errorf("spec.provider %s needs no credentials: %w", provider, err))
	}
	through, err := access.ParseProxy(proxy)
	if err != nil {
		return nil, stalledAuth(err)
	}
	// The writer of the Secret must not get the identity, so its ca.crt is for the repository only.
	var authorities map[string][]byte
	if o.Cloud.Authorities != nil {
		authorities = map[string][]byte{"ca.crt": o.Cloud.Authorities}
	}
	client, err := access.Client(at, authorities, through.Connect())
	if err != nil {
		return nil, stalledAuth(err)
	}
	of := tokens.CloudAccess{Provider: provider}
	if proxy != nil {
		of.Proxy = identity(proxy)
	}
	return &issuer{
		credentials: func(ctx context.Context) (map[string][]byte, error) {
			return o.Cloud.Credentials(ctx, of, client, o.Now())
		},
		forget: func(refused map[string][]byte) { o.Cloud.Forget(of, refused) },
		hosts:  map[string][]byte{access.HostsKey: []byte(access.Endpoint(at))},
		advice: fmt.Sprintf("let the identity of the controller's pod read the repository, because spec.provider is %s",
			provider),
	}, nil
}

// isGeneric reports whether a repository is read with the keys of its Secret.
func isGeneric(provider v1alpha1.SourceProvider) bool {
	return provider == "" || provider == v1alpha1.ProviderGeneric
}

// merged returns the keys of two parts of a Secret together.
func merged(a, b map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// identity identifies the owner of a Secret without its content.
func identity(secret map[string][]byte) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(secret)) {
		fmt.Fprintf(h, "%q=%q ", key, secret[key])
	}
	return hex.EncodeToString(h.Sum(nil))
}
