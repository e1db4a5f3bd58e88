package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpproxy"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/internal/cli"
)

// Releases asks for the newest release, once, with nothing in the request but its address. It honours HTTPS_PROXY and
// NO_PROXY.
type Releases struct {
	// Version is that of this program.
	Version string
	// Feed answers as the API of GitHub does: an object with the tag of the newest release. It is an https URL.
	Feed string
	// Timeout limits the request.
	Timeout time.Duration
	// Transport connects to the feed; nil: over the network, through the proxy of the environment.
	Transport http.RoundTripper
}

// defaultFeed names the newest release that is no pre-release.
const defaultFeed = "https://api.github.com/repos/bunsen-os/bunsen/releases/latest"

// AddFlags adds the flags of the request.
func (r *Releases) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.Feed, "feed", defaultFeed,
		"with --check, where to ask; a mirror answers with {\"tag_name\": \"v1.2.3\"}")
	f.DurationVar(&r.Timeout, "timeout", 10*time.Second, "with --check, how long to wait for the answer")
}

// Check prints whether there is a newer release.
func (r *Releases) Check(ctx context.Context, w io.Writer) error {
	newest, err := r.newest(ctx)
	if err != nil {
		return err
	}
	own, err := semver.StrictNewVersion(releaseOf(r.Version))
	switch {
	case err != nil:
		fmt.Fprintf(w, "The newest release is v%s. This program was built from a commit without a release.\n", newest)
	case own.LessThan(newest):
		fmt.Fprintf(w, "A newer release exists: v%s\n", newest)
		return &cli.ExitError{Code: cli.ExitDifferent}
	default:
		fmt.Fprintf(w, "No newer release exists: the newest is v%s.\n", newest)
	}
	return nil
}

// afterTag matches what `git describe` adds to a tag: commits since then, and changes that are not committed.
var afterTag = regexp.MustCompile(`(-\d+-g[0-9a-f]+)?(-dirty)?$`)

// releaseOf returns the release on which a version is based, without the v.
func releaseOf(version string) string {
	tag := afterTag.ReplaceAllString(version, "")
	if len(tag) > 0 && tag[0] == 'v' {
		return tag[1:]
	}
	return tag
}

// maxAnswer is the most bytes of an answer that are read. GitHub sends some tens of kilobytes.
const maxAnswer = 4 << 20

// newest asks the feed.
func (r *Releases) newest(ctx context.Context) (*semver.Version, error) {
	feed, err := url.Parse(r.Feed)
	if err != nil || feed.Scheme != "https" || feed.Host == "" {
		return nil, cli.Invalid(fmt.Errorf("--feed %q: want the URL of a feed, such as %s", r.Feed, defaultFeed))
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Feed, nil)
	if err != nil {
		return nil, cli.Invalid(fmt.Errorf("--feed: %w", err))
	}
	req.Header.Set("User-Agent", "bunsen") // Go would send its own version.
	client := &http.Client{Transport: r.Transport, CheckRedirect: sameHost}
	if client.Transport == nil {
		client.Transport = overProxy()
	}
	answer, err := client.Do(req)
	if err != nil {
		return nil, cli.Unreachable(r.explain(ctx, feed, err))
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotFound:
		return nil, cli.Unreachable(fmt.Errorf("%s has no release of Bunsen", feed.Host))
	case answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusTooManyRequests:
		return nil, cli.Unreachable(fmt.Errorf("%s refuses the request (%d), perhaps because too many came from this "+
			"address: try again in an hour", feed.Host, answer.StatusCode))
	case answer.StatusCode != http.StatusOK:
		return nil, cli.Unreachable(fmt.Errorf("asking %s for the newest release: it answers with %d", feed.Host,
			answer.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, cli.Unreachable(r.explain(ctx, feed, err))
	}
	var release struct {
		Tag string `json:"tag_name"`
	}
	if err := json.Unmarshal(body, &release); err != nil {
		return nil, cli.Unreachable(fmt.Errorf("the answer of %s is not that of a feed of releases: does a proxy "+
			"ask for a login?", feed.Host))
	}
	newest, err := semver.StrictNewVersion(releaseOf(release.Tag))
	if err != nil {
		return nil, cli.Unreachable(fmt.Errorf("the newest release of %s has the tag %q, which is no version",
			feed.Host, safetext.Line(release.Tag)))
	}
	return newest, nil
}

// overProxy connects through the proxy of the environment.
func overProxy() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	proxy := httpproxy.FromEnvironment().ProxyFunc()
	t.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	return t
}

// errOtherHost is the cause of a refused redirect.
var errOtherHost = errors.New("it redirects to another place, which is not followed")

// sameHost implements http.Client.CheckRedirect: only the host that the user asked gets a request.
func sameHost(to *http.Request, via []*http.Request) error {
	if first := via[0].URL; to.URL.Scheme != first.Scheme || to.URL.Host != first.Host || len(via) > 3 {
		return errOtherHost
	}
	return nil
}

// explain says what a failed request means.
func (r *Releases) explain(ctx context.Context, feed *url.URL, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case errors.Is(err, errOtherHost):
		return fmt.Errorf("asking %s for the newest release: %w", feed.Host, err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer within %s: is this machine offline, or does it need HTTPS_PROXY?",
			feed.Host, r.Timeout)
	}
	return fmt.Errorf("asking %s for the newest release: %w: is this machine offline, or does it need HTTPS_PROXY?",
		feed.Host, err)
}
