package fault

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// UnknownError is a request whose answer is missing: the other side may have carried it out. It is no failure yet. The
// caller keeps its record of the request, looks at the object of the request, and decides from that (ADR 35).
type UnknownError struct {
	// Err is why there is no answer.
	Err error
}

// Error says that the outcome is unknown, and why.
func (e *UnknownError) Error() string { return "it is unknown whether this was done: " + e.Err.Error() }

// Unwrap returns why there is no answer.
func (e *UnknownError) Unwrap() error { return e.Err }

// IsUnknown reports whether the request that failed with err may have been carried out.
func IsUnknown(err error) bool { return errors.As(err, new(*UnknownError)) }

// NewUnknown marks err as the failure of a request that may have been carried out; nil for nil.
func NewUnknown(err error) error {
	if err == nil || IsUnknown(err) {
		return err
	}
	return &UnknownError{err}
}

// Names of D-Bus errors that the bus or the library makes when the answer of a program is missing.
var lostReplies = map[string]bool{
	"org.freedesktop.DBus.Error.NoReply":      true,
	"org.freedesktop.DBus.Error.Disconnected": true,
	"org.freedesktop.DBus.Error.Timeout":      true,
	"org.freedesktop.DBus.Error.TimedOut":     true,
}

// BusRequest marks the error of a call over D-Bus. The parameter name is the name of the error in the reply; empty if
// there was no reply, as after a closed connection or the end of the context. A reply is an answer, except one that the
// bus sends in place of a program that has gone.
func BusRequest(err error, name string) error {
	if name != "" && !lostReplies[name] {
		return err
	}
	return NewUnknown(err)
}

// The codes of HTTP that say what a status is: a refusal is from badRequest up to serverError.
const (
	badRequest     = 400
	serverError    = 500
	badGateway     = 502
	gatewayTimeout = 504
)

// APIRequest marks the error of a write to the API server. Only a status from 400 to 499 is an answer. After a server
// error, such as a time-out of etcd, the object may have been stored. A connection that was refused is unknown too: the
// Kubernetes client repeats a request after some server errors, and returns only the last error.
//
// A Conflict or AlreadyExists is an answer, and yet the first attempt of the same client may be its cause. So the
// caller compares the object with what it wanted to write, before it concludes that another client was first.
func APIRequest(err error) error {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		if code := answer.Status().Code; code >= badRequest && code < serverError {
			return err
		}
	}
	return NewUnknown(err)
}

// HTTPRequest marks the error of a request to a server of another kind. The parameter status is the status code of the
// answer; 0 if there was none. An answer is an answer, except that of a gateway which has lost the server behind it.
func HTTPRequest(err error, status int) error {
	switch status {
	case 0, badGateway, gatewayTimeout:
		return NewUnknown(err)
	}
	return err
}
