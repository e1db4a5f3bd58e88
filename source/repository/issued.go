package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"

	"github.com/bunsen-os/bunsen/source/git"
	"github.com/bunsen-os/bunsen/source/tokens"
)

// Issuer exchanges the identity of a source for credentials that expire soon.
type Issuer interface {
	// Credentials returns keys of a Secret with valid credentials for https. Errors are faults.
	Credentials(ctx context.Context) (map[string][]byte, error)
	// Forget drops credentials that the remote refused.
	Forget(refused map[string][]byte)
}

// issued is a repository whose credentials an issuer provides.
type issued struct {
	// open opens the repository with the keys of the Secret that the issuer returns.
	open   func(issued map[string][]byte) (Remote, error)
	issuer Issuer
	url    string
}

// newIssuedGit checks the configuration of a git repository. The keys of the Secret are for the issuer only.
func newIssuedGit(config git.Config, proxy *access.Proxy, keys []string, issuer Issuer) (GitRemote, error) {
	config.Secret = maps.Clone(config.Secret)
	maps.DeleteFunc(config.Secret, func(key string, _ []byte) bool { return slices.Contains(keys, key) })
	return newIssued(issuer, func(issued map[string][]byte) (Remote, error) {
		config := config
		config.Secret = merged(config.Secret, issued)
		return openGit(config, proxy)
	})
}

// merged returns the keys of two parts of a Secret together.
func merged(a, b map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// newIssued checks the configuration of a repository whose credentials an issuer provides.
func newIssued(issuer Issuer, open func(issued map[string][]byte) (Remote, error)) (GitRemote, error) {
	r := &issued{open: open, issuer: issuer}
	// newIssued checks whether the credentials may go to the host before it asks the issuer for credentials.
	remote, err := r.open(map[string][]byte{"bearerToken": []byte("requested-later")})
	if err != nil {
		return nil, err
	}
	r.url = remote.URL()
	return r, nil
}

// with calls do with the repository. If the remote refuses the credentials, the next call gets new ones from the
// issuer.
func (r *issued) with(ctx context.Context, do func(Remote) error) error {
	secret, err := r.issuer.Credentials(ctx)
	if err != nil {
		return err
	}
	remote, err := r.open(secret)
	if err != nil {
		return err
	}
	err = do(remote)
	if err != nil && fault.Of(err, "").Reason == v1alpha1.ReasonAuthentication {
		r.issuer.Forget(secret)
		if i, ok := r.issuer.(interface{ advice() string }); ok {
			f := fault.Of(err, "")
			f.Err = errors.New(strings.ReplaceAll(f.Err.Error(), access.CheckAdvice, i.advice()))
			return f
		}
	}
	return err
}

// URL returns the repository's address without credentials.
func (r *issued) URL() string { return r.url }

// List returns the remote's refs, as Remote.List does.
func (r *issued) List(ctx context.Context) (refs []source.Ref, err error) {
	err = r.with(ctx, func(remote Remote) error {
		refs, err = remote.List(ctx)
		return err
	})
	return refs, err
}

// Tree puts the files of a commit into a directory, as Remote.Tree does.
func (r *issued) Tree(ctx context.Context, picked source.Picked, path string,
	into source.Destination,
) (tree source.Tree, err error) {
	err = r.with(ctx, func(remote Remote) error {
		tree, err = remote.Tree(ctx, picked, path, into)
		return err
	})
	return tree, err
}

// ListFor returns the refs that source.Pick needs, as Remote.ListFor does.
func (r *issued) ListFor(ctx context.Context, want v1alpha1.GitRef) (refs []source.Ref, err error) {
	err = r.with(ctx, func(remote Remote) error {
		refs, err = remote.ListFor(ctx, want)
		return err
	})
	return refs, err
}

// ListPrefixes returns the refs with the prefixes, as GitRemote.ListPrefixes does.
func (r *issued) ListPrefixes(ctx context.Context, prefixes []string) (refs []source.Ref, err error) {
	err = r.with(ctx, func(remote Remote) error {
		repository, ok := remote.(GitRemote)
		if !ok {
			return fmt.Errorf("listing the refs of %s: it is not a repository of git", r.url)
		}
		refs, err = repository.ListPrefixes(ctx, prefixes)
		return err
	})
	return refs, err
}

// Evidence returns the objects of the commits since the applied commit, as Remote.Evidence does.
func (r *issued) Evidence(ctx context.Context, picked source.Picked) (e source.Evidence, err error) {
	err = r.with(ctx, func(remote Remote) error {
		e, err = remote.Evidence(ctx, picked)
		return err
	})
	return e, err
}

// identity identifies the owner of a Secret without its content.
func identity(secret map[string][]byte) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(secret)) {
		fmt.Fprintf(h, "%q=%q ", key, secret[key])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// appIssuer issues the tokens of a GitHub App.
type appIssuer struct {
	tokens *tokens.GitHubTokens
	app    *tokens.GitHubApp
	now    func() time.Time
}

// Credentials returns the user and the password with which git reads as a GitHub App.
func (i *appIssuer) Credentials(ctx context.Context) (map[string][]byte, error) {
	token, err := i.tokens.Token(ctx, i.app, i.now())
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"username": []byte("x-access-token"), "password": []byte(token)}, nil
}

// Forget drops a refused token.
func (i *appIssuer) Forget(refused map[string][]byte) {
	i.tokens.Forget(i.app, string(refused["password"]))
}
