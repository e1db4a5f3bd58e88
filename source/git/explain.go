package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	gittransport "github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/transport"
)

// cause is a known error: how to detect the error, its reason, whether a user must fix it, and the text for the user.
type cause struct {
	is     func(error) bool
	kind   func(reason string, err error) error
	reason string
	text   string // empty if the error's own text is for the user
}

// causes are the known errors, in the order in which explain compares them.
var causes = []cause{
	{
		is(gittransport.ErrAuthenticationRequired), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server requires credentials, or rejects these: " + transport.CheckAdvice,
	},
	{
		is(gittransport.ErrAuthorizationFailed), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server refuses these credentials: they need the right to read the repository",
	},
	{
		says("ssh: unable to authenticate"), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server does not accept the Secret's identity: check the user in the URL and add the public key to that " +
			"account. The server must require no other login",
	},
	{
		is(gittransport.ErrRepositoryNotFound), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the server has no such repository, or hides it from these credentials",
	},
	{
		IsNoRepository, fault.NewRetry, v1alpha1.ReasonUnreachable, "",
	},
	{
		is(errPlanted), fault.NewStalled, v1alpha1.ReasonUnreachable, "",
	},
	{
		is(ErrObjectFormat, errRefStorage, errExtension), fault.NewStalled, v1alpha1.ReasonInvalidTree, "",
	},
	{
		isUnknownHost, fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server's host key is not in the Secret's known_hosts: check the key and add it. The line begins with " +
			"the host, and with [host]:port for another port than 22",
	},
	{
		says("no common algorithm for host key"), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server has no host key of the types that the Secret's known_hosts has for it: check the server's key " +
			"and add its line",
	},
	{
		says("ssh: no authorities for hostname", "in the set of valid principals for given certificate",
			"ssh: cert has expired", "ssh: cert is not yet valid"), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server's host certificate is invalid for it: renew it with the host's name, or correct the line " +
			"@cert-authority in the Secret's known_hosts",
	},
	{
		says("ssh: no common algorithm"), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the server offers outdated algorithms only: upgrade its ssh server, or correct its settings",
	},
	{
		isRevoked, fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the Secret's known_hosts revokes the server's host key: give the server another key and add it, because " +
			"others may have this one",
	},
	{
		isChangedHostKey, fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server's host key differs from the one in the Secret's known_hosts: another server may intercept the " +
			"connection, or the server has a new key",
	},
	{
		isOutdated, fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server's certificate has expired, or is not valid yet: renew it on the server, or correct the clock of " +
			"the controller's machine",
	},
	{
		isForOtherNames, fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server's certificate is for other names: correct the host of the URL, or add that host to the certificate",
	},
	{
		isUntrusted, fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server's certificate is not trusted: put its certificate authority into the Secret as ca.crt",
	},
	{
		says("tls: certificate required", "tls: bad certificate"), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server requires another client certificate, or the first one: write its PEM into tls.crt and tls.key of " +
			"the Secret",
	},
	{
		says("remote error: tls: unknown certificate", "remote error: tls: expired certificate",
			"remote error: tls: access denied"), fault.NewStalled, v1alpha1.ReasonAuthentication,
		"the server refuses the client certificate of the Secret (tls.crt): renew it, or let the server trust its " +
			"authority",
	},
	{
		transport.IsBusy(http.StatusTooManyRequests), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the server limits the requests of this controller. The controller waits as long as the server asks, at most " +
			"an hour. Increase spec.interval, or the limit on the server",
	},
	{
		transport.IsBusy(http.StatusServiceUnavailable), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the server does not serve requests now; the controller tries again",
	},
	{
		is(transport.ErrNoGit), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the URL does not lead to a git repository. Correct its host and path, or add credentials to the Secret if " +
			"the URL leads to a login page",
	},
	{
		is(transport.ErrTooLarge), fault.NewStalled, v1alpha1.ReasonInvalidTree,
		"the server sends more than the limit: keep large files in a repository of their own",
	},
	{
		says("objectformat", "object-format=sha256", "no space after hash"), fault.NewStalled,
		v1alpha1.ReasonInvalidTree,
		"the repository " + ErrObjectFormat.Error(),
	},
	{
		says("connection refused"), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"nothing listens at this address: correct the host and the port of the URL, or start the server",
	},
	{
		says("first record does not look like a TLS handshake", "server gave HTTP response to HTTPS client"),
		fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the server does not use TLS at this port: correct the port of the URL, or its scheme",
	},
	{
		says("ssh: handshake failed: EOF", "ssh: handshake failed: read tcp"), fault.NewRetry,
		v1alpha1.ReasonUnreachable,
		"the server ended the connection before the login: correct the host and the port of the URL. A server that " +
			"limits connections does this too; the controller tries again",
	},
	{
		is(transport.ErrText), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the account on the server writes a text in place of git's answer, or before it. Remove the text from its " +
			"login files or its forced command, and let it run git-upload-pack",
	},
	{
		is(transport.ErrEnded), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the server ended the session without git's answer: correct the path of the URL, and let the key read the " +
			"repository",
	},
	{
		is(transport.ErrInvalid, pktline.ErrInvalidPktLen), fault.NewRetry, v1alpha1.ReasonUnreachable,
		"the answer is not one of git's protocol: correct the URL, or the proxy before the server",
	},
	{
		is(io.EOF, io.ErrUnexpectedEOF, packp.ErrEmptyInput, syscall.ECONNRESET, syscall.EPIPE), fault.NewRetry,
		v1alpha1.ReasonUnreachable,
		"the server, or a proxy before it, ended the connection in the middle of an answer; the controller tries again",
	},
	{
		says("possible repository corruption"), fault.NewRetry, v1alpha1.ReasonRepositoryDamaged,
		"git on the server cannot read an object: the repository is damaged, or the server lacks memory",
	},
	{
		is(plumbing.ErrObjectNotFound), fault.NewRetry, v1alpha1.ReasonRepositoryDamaged,
		"an object is missing: the repository is damaged, a partial clone, or was repacked just now",
	},
}

// explain returns an error as a fault that says what to do. explain drops the chain of the error, because the
// libraries' errors may contain a request with its credentials.
func (r *Remote) explain(ctx context.Context, doing string, err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return &fault.Error{
			Kind: f.Kind, Reason: f.Reason,
			Err: errors.New(doing + ": " + r.hide.removeFrom(f.Error())), After: f.After,
		}
	}
	if end := contextEnd(ctx, err); end != nil {
		return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: no answer in time: %w", doing, end))
	}
	detail := ownPort.ReplaceAllString(source.Line(r.hide.removeFrom(withoutRedirect(err).Error())), "$1 $2")
	detail = clock.ReplaceAllString(detail, ": the current time is")
	// The text of this error depends on which goroutine of net/http sees the end of a connection first, and so differs
	// each time.
	detail = strings.TrimPrefix(detail, "readLoopPeekFailLocked: ")
	for _, c := range causes {
		if c.is(err) {
			if c.text != "" {
				detail = c.text + " (" + detail + ")"
			}
			f := fault.Of(c.kind(c.reason, fmt.Errorf("%s: %s", doing, detail)), "")
			f.After = transport.WaitOf(err)
			return f
		}
	}
	return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("%s: %s", doing, detail))
}

// withoutRedirect removes the URL to which a server redirected, because it may contain a secret of that server.
func withoutRedirect(err error) error {
	var request *url.Error
	switch {
	case errors.As(err, &request):
		return request.Err
	}
	return err
}

// ownPort is the local end of a connection, and clock the time of a check. explain removes both, so that the same error
// always has the same text.
var (
	ownPort = regexp.MustCompile(`\b((?:read|write|dial) (?:tcp|udp)[46]?) \S+->(\S+)`)
	clock   = regexp.MustCompile(`: current time \S+ is`)
)

// contextEnd returns the error of the context if a call failed because the context ended.
func contextEnd(ctx context.Context, err error) error {
	for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, end) || errors.Is(ctx.Err(), end) {
			return end
		}
	}
	return nil
}

// is returns a function that reports whether an error is one of the targets.
func is(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

// says returns a function that reports whether the text of an error contains one of the given texts. Use says for
// errors of libraries that have no type.
func says(texts ...string) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
	}
}

func isUnknownHost(err error) bool {
	var k *knownhosts.KeyError
	return errors.As(err, &k) && len(k.Want) == 0
}

func isChangedHostKey(err error) bool {
	var k *knownhosts.KeyError
	return errors.As(err, &k) && len(k.Want) > 0
}

func isRevoked(err error) bool {
	var r *knownhosts.RevokedError
	return errors.As(err, &r)
}

// IsNoRepository reports whether the error says that there is no repository, so that nothing else is wrong with one.
func IsNoRepository(err error) bool {
	var none noRepositoryError
	return errors.As(err, &none)
}

func isOutdated(err error) bool {
	var c x509.CertificateInvalidError
	return errors.As(err, &c) && c.Reason == x509.Expired
}

func isForOtherNames(err error) bool {
	var h x509.HostnameError
	return errors.As(err, &h)
}

func isUntrusted(err error) bool {
	var c *tls.CertificateVerificationError
	return errors.As(err, &c)
}

// secrets are texts that no error may contain, sorted by length, the longest first.
type secrets []string

// removeFrom replaces the secrets in a text.
func (s secrets) removeFrom(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

func (s secrets) stalledAuth(err error) error {
	return fault.NewStalled(v1alpha1.ReasonAuthentication, errors.New(s.removeFrom(err.Error())))
}
