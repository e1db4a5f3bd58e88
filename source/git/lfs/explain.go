package lfs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source/git/lfs/batch"
	"github.com/bunsen-os/bunsen/source/git/transport"
)

// refusedError is the error for an answer that reports no success.
type refusedError struct {
	code  int
	after time.Duration
	own   bool // own: the batch API refused the request, not the host of an object.
}

// Error returns the status of the answer.
func (e *refusedError) Error() string {
	return fmt.Sprintf("the server answers with status %d %s", e.code, http.StatusText(e.code))
}

func refusalOf(res *http.Response) error {
	return &refusedError{
		res.StatusCode, transport.RetryAfter(res.Header.Get("Retry-After"), time.Now()),
		res.Request.Method == http.MethodPost,
	}
}

// explain returns a fault that says what to do. explain drops the chain of the error, because an address of an object
// often contains a credential.
func (c *Client) explain(ctx context.Context, what string, err error) error {
	doing := "reading the Git LFS objects of " + c.at
	if end := ended(ctx, err); end != nil {
		return fault.NewRetry(v1alpha1.ReasonUnreachable,
			fmt.Errorf("%s: no answer in time: %w; increase spec.timeout for large objects", doing, end))
	}
	kind, reason, text := judge(err)
	f := &fault.Error{Kind: kind, Reason: reason, Err: fmt.Errorf("%s: %s%s", doing, what, text)}
	var refused *refusedError
	if errors.As(err, &refused) {
		f.After = refused.after
	}
	return f
}

// judge returns who can resolve an error, the reason of the error, and a text that contains nothing that a server
// wrote.
func judge(err error) (fault.Kind, string, string) {
	var refused *refusedError
	var missing *batch.MissingError
	var request *url.Error
	switch {
	case errors.As(err, &refused) && refused.own:
		return judgeRefusal(refused)
	case errors.Is(err, errLocal):
		return fault.Stalled, v1alpha1.ReasonInvalidTree, errLocal.Error()
	case errors.As(err, &missing):
		return fault.Retry, v1alpha1.ReasonUnreachable, missing.Error()
	case errors.As(err, &request):
		return fault.Retry, v1alpha1.ReasonUnreachable, connectionText(err)
	}
	return fault.Retry, v1alpha1.ReasonUnreachable, err.Error()
}

func judgeRefusal(refused *refusedError) (fault.Kind, string, string) {
	switch refused.code {
	case http.StatusUnauthorized:
		return fault.Stalled, v1alpha1.ReasonAuthentication, "the server requires credentials, or rejects these: " +
			"check username and password, or bearerToken, in the Secret of secretRef"
	case http.StatusForbidden:
		return fault.Stalled, v1alpha1.ReasonAuthentication, "the server refuses these credentials: they need the " +
			"right to read the repository and its Git LFS objects"
	case http.StatusNotFound:
		return fault.Retry, v1alpha1.ReasonUnreachable, "the server has no Git LFS for this repository: enable it on " +
			"the server, or remove LFS from spec.include"
	}
	if isRedirect(refused.code) {
		return fault.Retry, v1alpha1.ReasonUnreachable, "the server redirects the request: write the repository's " +
			"final address into the URL"
	}
	return fault.Retry, v1alpha1.ReasonUnreachable, refused.Error()
}

// connectionText explains a request without an answer. The text names no host, because the host of an object comes from
// an answer of the server.
func connectionText(err error) string {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	switch {
	case errors.As(err, &certificate):
		return "the server's certificate is not trusted, has expired, or is for another name: put its certificate " +
			"authority into the Secret as ca.crt"
	case errors.As(err, &name):
		return "the name of the server does not resolve: correct its address in the settings of the git host, or the " +
			"controller's DNS"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at the server's address: correct it in the settings of the git host, or start " +
			"the server"
	}
	return "the connection failed; the controller tries again"
}
