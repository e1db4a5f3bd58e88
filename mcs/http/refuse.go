package http

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// retryAfter is when a machine that came too early should ask again, in seconds. Ignition asks again by itself.
const retryAfter = 5

// challenge tells who came without a good token what is wanted (RFC 6750, section 3).
const challenge = `Bearer realm="bunsen"`

// refusal is an answer of this package's own, and what it says to whoever asked. The log has Error, which may say more.
type refusal struct {
	status int
	reason string // in a word, for counters
	public string
	cause  error // nil: public says it all
}

func (r *refusal) Error() string {
	if r.cause == nil {
		return r.public
	}
	return fmt.Sprintf("%s: %v", r.public, r.cause)
}

func (r *refusal) Unwrap() error { return r.cause }

// The refusals that need no cause. That too much is asked is told with a status on which Ignition asks again.
var (
	errForeign          = &refusal{status: http.StatusForbidden, reason: "Foreign", public: "this address may not ask here"}
	errTooMany          = &refusal{status: http.StatusServiceUnavailable, reason: "TooMany", public: "too many requests from this address: ask again later"}
	errTooManyFailures  = &refusal{status: http.StatusServiceUnavailable, reason: "TooManyFailures", public: "too many requests from this address that were turned away: ask again later"}
	errOtherCertificate = &refusal{status: http.StatusForbidden, reason: "OtherCertificate", public: "the client certificate is for another pool"}
)

// flood tells whether an error is one of those that somebody can cause as often as the line lets them.
func flood(err error) bool {
	return errors.Is(err, errForeign) || errors.Is(err, errTooMany) || errors.Is(err, errTooManyFailures)
}

// notNow says that a config cannot be served at the moment, without the cause, which is the operator's to know.
func notNow(reason, what string, cause error) error {
	return &refusal{status: http.StatusServiceUnavailable, reason: reason, public: what + ": ask again later", cause: cause}
}

// told is what whoever asked is told of an error. Ignition tries again on 5xx and gives up on 4xx.
func told(err error) refusal {
	var own *refusal
	var refused *token.Refusal
	var bound *mcs.BoundError
	var unsupported *mcs.UnsupportedError
	var unsayable *mcs.UnsayableError
	text := err.Error()
	switch {
	case errors.As(err, &own):
		return *own
	case errors.As(err, &refused):
		return refusal{status: refused.Status(), reason: string(refused.Reason), public: refused.Public()}
	case errors.As(err, &bound):
		return refusal{status: http.StatusForbidden, reason: "Bound", public: "this pool's config has secrets that a machine needs while it boots: ask with a token of the node: bunsen token create --node"}
	case errors.Is(err, mcs.ErrUnknownPool):
		return refusal{status: http.StatusNotFound, reason: "UnknownPool", public: text}
	case errors.Is(err, mcs.ErrNothingRendered):
		return refusal{status: http.StatusServiceUnavailable, reason: "NothingRendered", public: text}
	case errors.Is(err, mcs.ErrNotSynced):
		return refusal{status: http.StatusServiceUnavailable, reason: "NotSynced", public: text}
	case errors.As(err, &unsupported):
		return refusal{status: http.StatusBadRequest, reason: "Unsupported", public: text}
	case errors.As(err, &unsayable):
		return refusal{status: http.StatusNotAcceptable, reason: "Unsayable", public: text}
	}
	// It is about the whole config, and may quote it: that is for those who read the log.
	return refusal{status: http.StatusInternalServerError, reason: "Broken", public: "the config cannot be served: the server's log says why", cause: err}
}

// refuse answers an error with its status and its text, and returns the status.
func refuse(w http.ResponseWriter, err error) int {
	answer := told(err)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	switch answer.status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", strconv.Itoa(retryAfter))
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", challenge)
	}
	http.Error(w, answer.public, answer.status)
	return answer.status
}
