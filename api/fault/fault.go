package fault

import (
	"errors"
	"time"
)

// Kind says how a failure can be resolved.
type Kind int

const (
	// Retry: the same call may succeed later (network, conflict). Retry is the zero value, so callers retry an unmarked
	// error.
	Retry Kind = iota
	// Wait: another event must happen first. Such a wait is normal and not an error.
	Wait
	// Stalled: a user must change something, because a retry never succeeds.
	Stalled
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case Wait:
		return "Wait"
	case Stalled:
		return "Stalled"
	default:
		return "Retry"
	}
}

// Error is a failure with its kind and a stable reason in CamelCase.
type Error struct {
	// Kind says how the failure can be resolved.
	Kind Kind
	// Reason is a condition reason, from api/v1alpha1.
	Reason string
	// Err is the failure itself, never nil.
	Err error
	// After is how long the other side asks to wait before a retry; 0 if it does not ask.
	After time.Duration
}

// Error returns the text of the failure itself.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the failure itself.
func (e *Error) Unwrap() error { return e.Err }

// NewRetry marks err as a failure that a retry may resolve. NewRetry returns nil for nil, as the other constructors do.
func NewRetry(reason string, err error) error { return mark(Retry, reason, err) }

// NewWait marks err as a normal wait.
func NewWait(reason string, err error) error { return mark(Wait, reason, err) }

// NewStalled marks err as a failure that a user must resolve.
func NewStalled(reason string, err error) error { return mark(Stalled, reason, err) }

func mark(k Kind, reason string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: k, Reason: reason, Err: err}
}

// Of returns the outermost mark on err. An unmarked error is a Retry with the given reason.
func Of(err error, otherwise string) *Error {
	var e *Error
	if errors.As(err, &e) {
		return &Error{Kind: e.Kind, Reason: e.Reason, Err: err, After: e.After}
	}
	return &Error{Kind: Retry, Reason: otherwise, Err: err}
}
