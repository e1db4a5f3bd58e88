package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

const (
	// earlyBy is how long before its end a token is replaced, so that a fetch never starts with a token that ends.
	earlyBy = 5 * time.Minute
	// longestUse bounds the use of a token, whatever the server says about its end.
	longestUse = time.Hour - earlyBy
	// failurePause is for how long all sources of a provider get the last failure without another request.
	failurePause = 10 * time.Second
	maxAnswer    = 1 << 20
	maxToken     = 16 << 10
)

// Tokens requests tokens of the identity of this process, and stores each until five minutes before its end. All sources of a provider
// share one token. It is safe for concurrent use.
type Tokens struct {
	// Getenv returns a variable of the process's environment.
	Getenv func(string) string

	mu        sync.Mutex
	providers map[v1alpha1.SourceProvider]*stored
}

// stored is the last answer for one provider. The channel is its lock, so that a waiting caller can give up.
type stored struct {
	lock  chan struct{}
	token string
	err   error
	until time.Time // of the token or the error
}

// Credentials returns the keys of a Secret that read repositories of a provider. The client must not follow redirects; requests to the
// metadata server of a machine do not use it. Errors are faults: AuthenticationFailed if the provider refuses the identity,
// RepositoryUnreachable if it does not answer.
func (t *Tokens) Credentials(ctx context.Context, provider v1alpha1.SourceProvider, client *http.Client, now time.Time) (map[string][]byte, error) {
	token, err := t.token(ctx, provider, client, now)
	if err != nil {
		return nil, err
	}
	if provider == v1alpha1.ProviderGCP {
		return map[string][]byte{"username": []byte("oauth2accesstoken"), "password": []byte(token)}, nil
	}
	return map[string][]byte{"bearerToken": []byte(token)}, nil
}

// Forget drops credentials that the host refused, so that the next call requests other ones.
func (t *Tokens) Forget(provider v1alpha1.SourceProvider, refused map[string][]byte) {
	at := t.of(provider)
	at.lock <- struct{}{}
	defer func() { <-at.lock }()
	if at.token != "" && (at.token == string(refused["bearerToken"]) || at.token == string(refused["password"])) {
		at.token, at.until = "", time.Time{}
	}
}

func (t *Tokens) token(ctx context.Context, provider v1alpha1.SourceProvider, client *http.Client, now time.Time) (string, error) {
	at := t.of(provider)
	select {
	case at.lock <- struct{}{}:
		defer func() { <-at.lock }()
	case <-ctx.Done():
		return "", fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("waiting for a token of %s: %w", provider, context.Cause(ctx)))
	}
	if now.Before(at.until) {
		return at.token, at.err
	}
	request := t.requestAzure
	if provider == v1alpha1.ProviderGCP {
		request = t.requestGCP
	}
	token, life, err := request(ctx, client)
	if err != nil {
		if ctx.Err() == nil {
			at.token, at.err, at.until = "", err, now.Add(failurePause)
		}
		return "", err
	}
	at.token, at.err, at.until = token, nil, now.Add(min(life-earlyBy, longestUse))
	return token, nil
}

func (t *Tokens) of(provider v1alpha1.SourceProvider) *stored {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.providers == nil {
		t.providers = map[v1alpha1.SourceProvider]*stored{}
	}
	at := t.providers[provider]
	if at == nil {
		at = &stored{lock: make(chan struct{}, 1)}
		t.providers[provider] = at
	}
	return at
}

// requestAzure exchanges the pod's projected token at Microsoft Entra ID.
func (t *Tokens) requestAzure(ctx context.Context, client *http.Client) (string, time.Duration, error) {
	endpoint, id, err := azureEndpoint(t.Getenv)
	if err != nil {
		return "", 0, fault.NewStalled(v1alpha1.ReasonAuthentication, err)
	}
	doing := "requesting a token of Azure from " + endpoint
	assertion, err := os.ReadFile(t.Getenv(azureTokenFile))
	if err != nil {
		return "", 0, fault.NewRetry(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: reading the projected token: %w", doing, err))
	}
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {id}, "scope": {devOpsScope},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {strings.TrimSpace(string(assertion))},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w", doing, err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(client, r, doing, "Azure refuses the identity: check the client's ID, and the issuer, subject and audience of its federated credential")
}

// requestGCP asks the metadata server of the pod or the machine. The request uses no proxy and no credentials.
func (t *Tokens) requestGCP(ctx context.Context, _ *http.Client) (string, time.Duration, error) {
	host := t.Getenv(gcpMetadata)
	if host == "" {
		host = "metadata.google.internal"
	}
	endpoint := (&url.URL{Scheme: "http", Host: host, Path: "/computeMetadata/v1/instance/service-accounts/default/token"}).String()
	doing := "requesting a token of Google Cloud from " + endpoint
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
	if err != nil {
		return "", 0, fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("reading %s of the controller's pod: it is not a host", gcpMetadata))
	}
	r.Header.Set("Metadata-Flavor", "Google")
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}
	return send(client, r, doing, "the metadata server has no account for the controller: bind one to its ServiceAccount")
}

// wellFormed matches tokens, which become a header.
var wellFormed = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]+$`)

// send sends a request for a token, and returns the token with its lifetime. The parameter refused is the advice for an answer that
// refuses the identity.
func send(client *http.Client, r *http.Request, doing, refused string) (string, time.Duration, error) {
	res, err := client.Do(r)
	if err != nil {
		var request *url.Error
		if errors.As(err, &request) {
			err = request.Err
		}
		return "", 0, fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %w", doing, err))
	}
	defer res.Body.Close()
	status := fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode))
	switch code := res.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusTooManyRequests || code >= 500:
		return "", 0, fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: the server does not serve requests now; the controller tries again (%s)", doing, status))
	default:
		return "", 0, fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %s (%s)", doing, refused, status))
	}
	var answer struct {
		Token   string `json:"access_token"`
		Expires int64  `json:"expires_in"` // seconds
	}
	err = json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer)
	if err != nil || !wellFormed.MatchString(answer.Token) || len(answer.Token) > maxToken || answer.Expires <= 0 {
		return "", 0, fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: the answer has no token", doing))
	}
	return answer.Token, time.Duration(min(answer.Expires, 86400)) * time.Second, nil
}
