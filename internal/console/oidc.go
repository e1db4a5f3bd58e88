package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	ssoStartPath    = "/oidc/start"
	ssoCallbackPath = "/oidc/callback"
	// for a user to sign in at the OpenID provider
	ssoTime     = 10 * time.Minute
	mostPending = 1000
)

// OIDC are the settings of an OpenID provider that the API server trusts too: its ID tokens are tokens of the API
// server.
type OIDC struct {
	// Issuer is the URL of the provider; empty for none.
	Issuer string
	// ClientID is the console's name at the provider. SecretFile has the secret of the client; empty for a public
	// client.
	ClientID, SecretFile string
	// CAFile has the CA certificates of the provider; empty for those of the system.
	CAFile string
	// Scopes are requested besides `openid`.
	Scopes []string
}

func (o OIDC) check() error {
	if o.Issuer == "" {
		if o.ClientID != "" || o.SecretFile != "" || o.CAFile != "" {
			return errors.New("--oidc-issuer is missing, and another flag --oidc-… is set")
		}
		return nil
	}
	if u, err := url.Parse(o.Issuer); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--oidc-issuer %q: want a URL that begins with https://", o.Issuer)
	}
	if o.ClientID == "" {
		return errors.New("--oidc-client-id is missing: name the console's client at the provider")
	}
	return nil
}

// sso sends users to an OpenID provider, and takes the ID token that the provider gives them.
type sso struct {
	settings OIDC
	secret   string
	client   *http.Client
	// users who are signing in at the provider
	pending *SessionStore[attempt]

	mu       sync.Mutex
	provider *oidc.Provider
}

// attempt has the values that the provider's answer to one user must match.
type attempt struct{ state, nonce, verifier, next string }

// mostAnswer limits an answer of the provider, in bytes.
const mostAnswer = 1 << 20

// careful sends requests over https only, also to the addresses that the provider names, and limits the answers.
type careful struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c careful) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errors.New("the provider names an address without https")
	}
	res, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // a transport returns the error of the connection
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, mostAnswer), res.Body}
	return res, nil
}

// oauth returns the settings of the code flow. The first call, and each after a failure, asks the provider for its
// addresses.
func (o *sso) oauth(host string) (*oauth2.Config, *oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider == nil {
		p, err := oidc.NewProvider(oidc.ClientContext(context.Background(), o.client), o.settings.Issuer)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the settings of the provider %s: %w", o.settings.Issuer, err)
		}
		o.provider = p
	}
	return &oauth2.Config{
		ClientID: o.settings.ClientID, ClientSecret: o.secret, Endpoint: o.provider.Endpoint(),
		RedirectURL: "https://" + host + ssoCallbackPath,
		Scopes:      append([]string{oidc.ScopeOpenID}, o.settings.Scopes...),
	}, o.provider, nil
}

func (o *sso) start(w http.ResponseWriter, r *http.Request, next string, now time.Time) error {
	config, _, err := o.oauth(r.Host)
	if err != nil {
		return err
	}
	a := attempt{state: rand.Text(), nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), next: next}
	cookie, err := o.pending.Open(rand.Reader, a, now, now.Add(ssoTime))
	if err != nil {
		return err
	}
	cookie.SameSite = http.SameSiteLaxMode // The page of the provider sends the user back to the console.
	http.SetCookie(w, cookie)
	redirect(w, config.AuthCodeURL(a.state, oidc.Nonce(a.nonce), oauth2.S256ChallengeOption(a.verifier)))
	return nil
}

// finish returns the ID token of a user whom the provider sent back, and the path that opens next. Each attempt counts
// once.
func (o *sso) finish(w http.ResponseWriter, r *http.Request, now time.Time) (token, next string, err error) {
	a, ok := o.pending.Find(r, now)
	http.SetCookie(w, o.pending.Close(r))
	q := r.URL.Query()
	if !ok || subtle.ConstantTimeCompare([]byte(a.state), []byte(q.Get("state"))) != 1 {
		return "", "/", errors.New("this answer of the provider does not belong to an attempt of this browser in the " +
			"last ten minutes: try again")
	}
	if reason := q.Get("error"); reason != "" {
		return "", a.next, fmt.Errorf("the provider did not sign you in: %s",
			strings.TrimSpace(reason+" "+q.Get("error_description")))
	}
	config, provider, err := o.oauth(r.Host)
	if err != nil {
		return "", a.next, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(r.Context(), o.client), checkTime)
	defer cancel()
	tokens, err := config.Exchange(ctx, q.Get("code"), oauth2.VerifierOption(a.verifier))
	if err != nil {
		var refused *oauth2.RetrieveError // The text of the error contains the whole answer.
		if errors.As(err, &refused) {
			return "", a.next, fmt.Errorf("the provider refused the code: %s", refused.ErrorCode)
		}
		return "", a.next, fmt.Errorf("exchanging the code at the provider: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: o.settings.ClientID}).Verify(ctx, raw)
	if err != nil {
		return "", a.next, fmt.Errorf("checking the ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.nonce)) != 1 {
		return "", a.next, errors.New("the provider's ID token is of another attempt: try again")
	}
	return raw, a.next, nil
}
