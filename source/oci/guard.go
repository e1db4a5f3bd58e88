package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
	"github.com/bunsen-os/bunsen/source/memory"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
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

// isNotFound reports whether the registry does not have what was requested.
func isNotFound(err error) bool {
	var answer *errcode.ErrorResponse
	return errors.Is(err, errdef.ErrNotFound) || errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// explain returns an error as a fault that says what to do. explain drops the registry's texts, because the address may
// lead to any service.
func explain(ctx context.Context, doing string, err error) error {
	var known *fault.Error
	var host *hostError
	var request *url.Error
	switch {
	case errors.As(err, &known):
		return &fault.Error{
			Kind: known.Kind, Reason: known.Reason, Err: fmt.Errorf("%s: %w", doing, known.Err),
			After: known.After,
		}
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: no answer in time", doing))
	case errors.As(err, &host):
		return fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %w", doing, host))
	case errors.Is(err, errInsecure):
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %w", doing, errInsecure))
	case errors.Is(err, access.ErrElsewhere):
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %w", doing, access.ErrElsewhere))
	case errors.Is(err, errNoPassword):
		return fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %w", doing, errNoPassword))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: nothing listens at this address: correct the host and the port of the URL, or start the "+
				"registry", doing))
	case isNotFound(err):
		return fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: the registry has no such repository or artifact, or hides it from these credentials",
				doing))
	}
	if advice := access.CertificateAdvice(err); advice != "" {
		return fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %s", doing, advice))
	}
	var answer *errcode.ErrorResponse
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return refusal(doing, http.StatusUnauthorized)
	}
	if errors.As(err, &answer) {
		return refusal(doing, answer.StatusCode)
	}
	if errors.As(err, &request) {
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %s", doing, source.Line(request.Err.Error())))
	}
	return fault.NewRetry(v1alpha1.ReasonUnreachable,
		fmt.Errorf("%s: the answer is not one of an OCI registry: correct the URL", doing))
}

// refusal returns the error for a status of the registry.
func refusal(doing string, code int) error {
	status := fmt.Sprintf("%d %s", code, http.StatusText(code))
	switch code {
	case http.StatusUnauthorized:
		return fault.NewStalled(v1alpha1.ReasonAuthentication,
			fmt.Errorf("%s: the registry requires credentials, or rejects these: %s (%s)", doing,
				access.CheckAdvice, status))
	case http.StatusForbidden:
		return fault.NewStalled(v1alpha1.ReasonAuthentication,
			fmt.Errorf("%s: the registry refuses these credentials: they need the right to pull (%s)", doing, status))
	case http.StatusTooManyRequests:
		return fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: the registry limits the requests of this controller: increase spec.interval (%s)", doing,
				status))
	}
	return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: the registry does not answer the request (%s)",
		doing, status))
}
