package git

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// cause is a failure that has an explanation: what to look for, its reason, whether it needs a person, and what to tell.
type cause struct {
	is     func(error) bool
	kind   func(reason string, err error) error
	reason string
	text   string
}

// causes in the order in which they are looked for.
var causes = []cause{
	{
		is(transport.ErrAuthenticationRequired), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server wants credentials, or other ones: check username and password, or bearerToken, in the Secret of secretRef",
	},
	{
		is(transport.ErrAuthorizationFailed), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server refuses these credentials: they need the right to read the repository",
	},
	{
		says("ssh: unable to authenticate"), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server does not accept the Secret's identity: add its public key there",
	},
	{
		is(transport.ErrRepositoryNotFound), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the server has no such repository, or hides it from these credentials",
	},
	{
		is(gogit.ErrRepositoryNotExists), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"there is no git repository",
	},
	{
		strangeHost, fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server's host key is not in the Secret's known_hosts: add it, after checking it",
	},
	{
		otherHost, fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server's host key is another one than the Secret's known_hosts says: somebody may stand in between, or the server has a new key",
	},
	{
		untrusted, fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server's certificate is not trusted: put its certificate authority into the Secret as ca.crt",
	},
	{
		is(errNoGit), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the URL does not lead to a git repository: correct its host and path",
	},
	{
		is(errTooLarge), fault.NewStalled, v1alpha1.ReasonInvalidTree,
		"the server sends more than the limit: keep large files in a repository of their own",
	},
	{
		says("objectformat"), fault.NewStalled, v1alpha1.ReasonInvalidTree,
		"the repository uses SHA-256 object names, which are not supported: convert it to SHA-1",
	},
	{
		is(plumbing.ErrObjectNotFound), fault.NewRetry, v1alpha1.ReasonInvalidTree,
		"an object is missing: the repository is damaged, a partial clone, or was repacked just now",
	},
}

// explain turns whatever went wrong into a fault that says what to do, and drops the error's own chain: the libraries'
// errors may hold a request with its credentials.
func (r *Remote) explain(ctx context.Context, doing string, err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return &fault.Error{Kind: f.Kind, Reason: f.Reason, Err: errors.New(doing + ": " + r.hide.from(f.Error()))}
	}
	if end := ended(ctx, err); end != nil {
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: no answer in time: %w", doing, end))
	}
	detail := ownPort.ReplaceAllString(source.Line(r.hide.from(withoutRedirect(err).Error())), "$1 $2")
	for _, c := range causes {
		if c.is(err) {
			return c.kind(c.reason, fmt.Errorf("%s: %s (%s)", doing, c.text, detail))
		}
	}
	return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %s", doing, detail))
}

// withoutRedirect drops the URL to which a server redirected: it may hold what only that server's clients may know.
func withoutRedirect(err error) error {
	var request *url.Error
	switch {
	case strings.Contains(err.Error(), "http redirect: "):
		return errors.New("the server redirects to an address that a git client does not follow: write the repository's final address into the URL")
	case errors.As(err, &request):
		return request.Err
	}
	return err
}

// ownPort is the local end of a connection, which differs from try to try: the same failure has the same words.
var ownPort = regexp.MustCompile(`\b((?:read|write|dial) (?:tcp|udp)[46]?) \S+->(\S+)`)

// ended returns the context's end if that is why a call failed.
func ended(ctx context.Context, err error) error {
	for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, end) || errors.Is(ctx.Err(), end) {
			return end
		}
	}
	return nil
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func says(text string) func(error) bool {
	return func(err error) bool { return strings.Contains(err.Error(), text) }
}

func strangeHost(err error) bool {
	var k *knownhosts.KeyError
	return errors.As(err, &k) && len(k.Want) == 0
}

func otherHost(err error) bool {
	var k *knownhosts.KeyError
	var r *knownhosts.RevokedError
	return errors.As(err, &k) && len(k.Want) > 0 || errors.As(err, &r)
}

func untrusted(err error) bool {
	var c *tls.CertificateVerificationError
	return errors.As(err, &c)
}

// secrets are texts that no error may hold, the longest first.
type secrets []string

// secretsOf lists every form in which a credential could come back: as it is, escaped for a URL, in a basic header.
func secretsOf(a source.Address, secret map[string][]byte) secrets {
	user, password := string(secret["username"]), string(secret["password"])
	plain := []string{password, string(secret["bearerToken"]), a.Password}
	// A token given as the user's name, without a password, is the secret itself.
	if password == "" || password == "x-oauth-basic" {
		plain = append(plain, user)
	}
	if a.Transport == source.HTTP && (a.Password == "" || a.Password == "x-oauth-basic") {
		plain = append(plain, a.User)
	}
	var all secrets
	for _, s := range plain {
		all = append(all, s, url.QueryEscape(s), url.PathEscape(s))
	}
	for _, pair := range [][2]string{{user, password}, {a.User, a.Password}} {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(pair[0]+":"+pair[1])))
	}
	all = slices.DeleteFunc(all, func(s string) bool { return len(s) < 4 || s == "Og==" })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// from takes the secrets out of a text.
func (s secrets) from(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

func (s secrets) stalledAuth(err error) error {
	return fault.NewStalled(v1alpha1.ReasonAuthentication, errors.New(s.from(err.Error())))
}
