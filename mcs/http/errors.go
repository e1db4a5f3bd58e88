package http

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// retryAfter is in seconds. Ignition retries even without this header.
const retryAfter = 5

// challenge: requests a valid token (RFC 6750, section 3)
const challenge = `Bearer realm="bunsen"`

// notSynced is the reason of a server that has started, and has not read the cluster yet.
const notSynced = "NotSynced"

// httpError is an error response. The client gets only the message, the log also the cause.
type httpError struct {
	status  int
	reason  string // reason is one word, for metrics.
	message string
	cause   error // cause is nil if message is the whole error.
}

// Error returns the message and the cause.
func (e *httpError) Error() string {
	if e.cause == nil {
		return e.message
	}
	return fmt.Sprintf("%s: %v", e.message, e.cause)
}

// Unwrap returns the cause.
func (e *httpError) Unwrap() error { return e.cause }

// Without a cause. Those about too many requests have a status on which Ignition retries.
var (
	errAddressNotAllowed = &httpError{
		status: http.StatusForbidden, reason: "Foreign",
		message: "this address is not allowed",
	}
	errTooManyRequests = &httpError{
		status: http.StatusServiceUnavailable, reason: "TooMany",
		message: "too many requests from this address: retry later",
	}
	errTooManyFailures = &httpError{
		status: http.StatusServiceUnavailable, reason: "TooManyFailures",
		message: "too many unauthorized requests from this address: retry later",
	}
	errNoNodeCertificate = &httpError{
		status: http.StatusUnauthorized, reason: "NoNode",
		message: "the request needs the certificate of a node's kubelet",
	}
	errNoNodeCAs = &httpError{
		status: http.StatusServiceUnavailable, reason: notSynced,
		message: "the server has not read yet which certificates nodes have: retry later",
	}
	errOverloaded = &httpError{
		status: http.StatusServiceUnavailable, reason: closedOverloaded,
		message: "too many requests from this address are running: retry later",
	}
	errTooManyStreams = &httpError{
		status: http.StatusServiceUnavailable, reason: "TooManyFiles",
		message: "the server sends too many files at a time: retry later",
	}
	errNoContent = &httpError{
		status: http.StatusNotFound, reason: "NoContent",
		message: "the path names no file: it ends in sha512-HEX, or in oci/REGISTRY/NAME@sha256:HEX",
	}
	errNoRange = &httpError{
		status: http.StatusRequestedRangeNotSatisfiable, reason: "Range",
		message: "the file has no such bytes",
	}
	errRequestBody = &httpError{
		status: http.StatusRequestEntityTooLarge, reason: "Body",
		message: "a request must not have a body",
	}
	errOtherCertificate = &httpError{
		status: http.StatusForbidden, reason: "OtherCertificate",
		message: "the client certificate is for another pool",
	}
)

// isRateLimited reports whether the log of an error needs a limit, because clients can cause it at will.
func isRateLimited(err error) bool {
	return errors.Is(err, errAddressNotAllowed) || errors.Is(err, errTooManyRequests) ||
		errors.Is(err, errTooManyFailures)
}

// unavailable hides the cause from the client.
func unavailable(reason, message string, cause error) error {
	return &httpError{
		status: http.StatusServiceUnavailable, reason: reason, message: message + ": retry later",
		cause: cause,
	}
}

// httpErrorOf: Ignition retries on 5xx and gives up on 4xx.
func httpErrorOf(err error) httpError {
	var own *httpError
	var invalid *join.InvalidError
	var needed *mcs.FirstBootSecretsError
	var version *mcs.UnsupportedVersionError
	var fields *mcs.UnsupportedFieldsError
	var notForNode *mcs.NotForNodeError
	var store *mcs.NoContentStoreError
	text := err.Error()
	switch {
	case errors.As(err, &own):
		return *own
	case errors.As(err, &invalid):
		return httpError{status: invalid.HTTPStatus(), reason: string(invalid.Reason), message: invalid.ClientMessage()}
	case errors.As(err, &needed):
		return httpError{status: http.StatusForbidden, reason: "Bound", message: "the config of this pool has " +
			"secrets that a machine needs during its first boot: use a token of the node: bunsen token create --node"}
	case errors.Is(err, mcs.ErrUnknownPool):
		return httpError{status: http.StatusNotFound, reason: "UnknownPool", message: text}
	case errors.Is(err, mcs.ErrNothingRendered):
		return httpError{status: http.StatusServiceUnavailable, reason: "NothingRendered", message: text}
	case errors.Is(err, mcs.ErrNotSynced):
		return httpError{status: http.StatusServiceUnavailable, reason: notSynced, message: text}
	case errors.As(err, &notForNode):
		return httpError{status: http.StatusForbidden, reason: "NotForNode", message: text}
	case errors.Is(err, mcs.ErrNoSuchConfig):
		return httpError{status: http.StatusNotFound, reason: v1alpha1.ReasonNoSuchConfig, message: text}
	case errors.Is(err, mcs.ErrSecretsUnresolved):
		return httpError{status: http.StatusServiceUnavailable, reason: v1alpha1.ReasonSecretsUnresolved, message: text}
	case errors.Is(err, mcs.ErrContentUnavailable):
		return httpError{
			status: http.StatusServiceUnavailable, reason: "ContentUnavailable",
			message: mcs.ErrContentUnavailable.Error() + ": retry later; the server's log says why", cause: err,
		}
	case errors.As(err, &store):
		return httpError{status: http.StatusServiceUnavailable, reason: "NoContentStore", message: text}
	case errors.Is(err, mcs.ErrAPIUnavailable):
		return httpError{
			status: http.StatusServiceUnavailable, reason: "NoAnswer",
			message: "the server cannot reach the API server now: retry later", cause: err,
		}
	case errors.As(err, &version):
		return httpError{status: http.StatusBadRequest, reason: "Unsupported", message: text}
	case errors.As(err, &fields):
		return httpError{status: http.StatusNotAcceptable, reason: "Unsayable", message: text}
	}
	// It may quote the config, so it is only in the log.
	return httpError{
		status: http.StatusInternalServerError, reason: "Broken",
		message: "the config cannot be served: the server's log says why", cause: err,
	}
}

func writeError(w http.ResponseWriter, err error) int {
	answer := httpErrorOf(err)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	switch answer.status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", strconv.Itoa(retryAfter))
	case http.StatusUnauthorized:
		if answer.reason != errNoNodeCertificate.reason {
			header.Set("WWW-Authenticate", challenge)
		}
	}
	http.Error(w, answer.message, answer.status)
	return answer.status
}
