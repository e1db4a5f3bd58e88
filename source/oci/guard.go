package oci

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/memory"
)

// errInsecure is the error for a redirect, or for a token service, without TLS.
var errInsecure = errors.New("the registry leads to an address without https")

// errNoPassword is the error if a registry requires a user name and a password, and the Secret has only other
// credentials.
var errNoPassword = errors.New("the registry requires credentials: write username and password into the Secret of " +
	"secretRef; it accepts no bearerToken")

// hostError is the error if the client would send credentials to a host that the Secret does not name.
type hostError struct{ host string }

// Error says what to add to the Secret.
func (e *hostError) Error() string {
	return fmt.Sprintf("the registry uses a token service on %s, which the key hosts of the Secret does not name: "+
		"add it if you trust it", e.host)
}

// guard sends credentials only to the registry and to the hosts of the Secret.
type guard struct {
	base     http.RoundTripper
	registry string
	to       access.Recipients
	memory   *memory.Budget
	// lacksPassword reports whether the Secret has a token instead of a user name and a password, or has only one of
	// these two.
	lacksPassword bool
	// anyTokenService lets the registry name its token service, to which a client sends GET and POST. Set
	// anyTokenService only for credentials whose owner uses them for this registry.
	anyTokenService bool
}

// client returns a client whose requests pass the guard.
func (g *guard) client() *http.Client {
	return &http.Client{Transport: g, CheckRedirect: checkRedirect}
}

// checkRedirect allows redirects on one host and port. Only files lead elsewhere, because registries keep them in the
// storage of a cloud: their digest is known, and the guard sends no credentials there.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	isFile := (first.Method == http.MethodGet || first.Method == http.MethodHead) &&
		strings.HasPrefix(first.URL.Path, "/v2/") && strings.Contains(first.URL.Path, "/blobs/sha256:")
	switch {
	case len(via) > maxRedirects:
		return errRedirects
	case next.URL.Scheme != "https":
		return errInsecure
	case first.Method != http.MethodGet && first.Method != http.MethodHead &&
		access.CheckRedirect(first.URL, next.URL) != nil:
		return &hostError{next.URL.Host}
	case !isFile && access.CheckRedirect(first.URL, next.URL) != nil:
		return access.ErrElsewhere
	}
	next.Header.Del("Referer") // It may contain a query with a token.
	return nil
}

// maxRedirects is how many redirects a request follows.
const maxRedirects = 5

// errRedirects is the error for more redirects.
var errRedirects = fmt.Errorf("the registry redirects more than %d times: correct the URL", maxRedirects)

// document is an answer that is read into memory: a manifest, a list of tags, a token.
var document = memory.Answer{What: "a manifest or tags", Limit: maxManifest + 1, Memory: 8 << 20}

// RoundTrip sends a request over https. After a redirect to another host, RoundTrip removes the credentials. RoundTrip
// fails if the token service is on a host that the Secret does not name.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errInsecure
	}
	if (r.Header.Get("Authorization") != "" || r.Method == http.MethodPost) && !g.allows(r) {
		if r.Response == nil || r.Method == http.MethodPost {
			return nil, &hostError{r.URL.Host}
		}
		r = r.Clone(r.Context())
		r.Header.Del("Authorization")
	}
	res, err := g.base.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "/blobs/") {
		res.Body = g.memory.Reader(r.Context(), res.Body, document, nil).Body(res.Body)
	}
	if err != nil || res.StatusCode != http.StatusUnauthorized || !g.lacksPassword ||
		!strings.EqualFold(r.URL.Host, g.registry) {
		return res, err
	}
	if challenge := res.Header.Get("WWW-Authenticate"); len(challenge) > 5 && strings.EqualFold(challenge[:5],
		"basic") {
		return nil, errors.Join(errNoPassword, res.Body.Close())
	}
	return res, nil
}

// allows reports whether the guard may send credentials to the host of a request.
func (g *guard) allows(r *http.Request) bool {
	if g.anyTokenService && r.Response == nil && (r.Method == http.MethodGet || r.Method == http.MethodPost) {
		return true
	}
	if r.Response != nil {
		return strings.EqualFold(r.URL.Host, g.registry)
	}
	return g.to.Allow(access.AddressOf(r.URL))
}
