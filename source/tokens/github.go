package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// maxGitHubToken is the longest token that GitHub issues.
const maxGitHubToken = 4096

// GitHubTokens requests the tokens of apps. All sources with the same app share one token, and the last failure. The
// zero value is ready for use, and safe for concurrent use.
type GitHubTokens struct {
	cache cache[string] // by the digest of an app
}

// Token returns a token that reads the repositories of the app's installation. Errors are faults: AuthenticationFailed
// if GitHub refuses the app, RepositoryUnreachable if GitHub does not answer.
func (t *GitHubTokens) Token(ctx context.Context, a *GitHubApp, now time.Time) (string, error) {
	return t.cache.token(ctx, a.digest, "the token of GitHub App "+a.id, now,
		func(ctx context.Context) (string, time.Duration, error) {
			token, end, err := a.request(ctx, now)
			return token, end.Sub(now), err
		})
}

// Forget drops a token that the git host refused, so that the next call of Token requests another token.
func (t *GitHubTokens) Forget(a *GitHubApp, token string) { t.cache.forget(a.digest, token) }

// request asks GitHub's API for a token that only allows reading contents of repositories.
func (a *GitHubApp) request(ctx context.Context, now time.Time) (token string, end time.Time, err error) {
	doing := fmt.Sprintf("requesting a token of GitHub App %s from %s", a.id, a.api)
	jwt, err := a.jwt(now)
	if err != nil {
		return "", end, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.api+"/app/installations/"+a.installation+
		"/access_tokens",
		strings.NewReader(`{"permissions":{"contents":"read"}}`))
	if err != nil {
		return "", end, fmt.Errorf("%s: %w", doing, err)
	}
	r.Header.Set("Authorization", "Bearer "+jwt)
	r.Header.Set("Accept", "application/vnd.github+json")
	r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	r.Header.Set("Content-Type", "application/json")
	res, err := a.client.Do(r)
	if err != nil {
		return "", end, fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %w", doing, errors.Unwrap(err)))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return "", end, a.refusal(doing, res, now)
	}
	var answer struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires_at"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer)
	if err != nil || !wellFormed.MatchString(answer.Token) || len(answer.Token) > maxGitHubToken ||
		answer.Expires.IsZero() {
		return "", end, fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: the answer is not one of GitHub's API: correct %s", doing, baseKey))
	}
	return answer.Token, answer.Expires, nil
}

// refusal returns the error for a status of the API. The error contains no part of the response body, because the
// address may lead to any service.
func (a *GitHubApp) refusal(doing string, res *http.Response, now time.Time) error {
	status := fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode))
	refused := func(text string) error {
		return fault.NewStalled(v1alpha1.ReasonAuthentication, fmt.Errorf("%s: %s (%s)", doing, text, status))
	}
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized:
		if at, err := http.ParseTime(res.Header.Get("Date")); err == nil && at.Sub(now).Abs() > clockSkew {
			return refused("the clock of the controller's machine differs by more than a minute from GitHub's: " +
				"correct the clock")
		}
		return refused("GitHub refuses the app: check that " + privateKey + " is a key of the app " + appKey)
	case res.Header.Get("Retry-After") != "" || code == http.StatusTooManyRequests ||
		res.Header.Get("X-RateLimit-Remaining") == "0":
		f := fault.Of(fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: GitHub limits the requests of the app; the controller tries again (%s)", doing, status)),
			"")
		f.After = time.Minute
		return f
	case code == http.StatusForbidden:
		return refused("the installation is suspended, or the app may not create tokens: check the installation")
	case code == http.StatusNotFound:
		return refused("the app has no installation " + a.installation + ": install it, or correct " + installationKey)
	case code == http.StatusUnprocessableEntity:
		return refused("the app may not read the contents of repositories: give it the permission Contents: " +
			"Read-only, and accept it for the installation")
	case code >= 300 && code < 400:
		return refused("the API redirects, which the controller does not follow: correct " + baseKey)
	}
	return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: the API does not answer the request (%s)", doing,
		status))
}
