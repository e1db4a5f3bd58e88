package fault

import "errors"

// Kind says what helps against a failure.
type Kind int

const (
	// Retry: the same call may succeed later (network, conflict). The zero value, so an unmarked error is retried.
	Retry Kind = iota
	// Wait: something else has to happen first; the wait is normal and not an alarm.
	Wait
	// Stalled: a person has to change something; trying again alone never helps.
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
	// Kind says what helps.
	Kind Kind
	// Reason is a condition reason, from api/v1alpha1.
	Reason string
	// Err is the failure itself, never nil.
	Err error
}

// Error returns the text of the failure itself.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the failure itself.
func (e *Error) Unwrap() error { return e.Err }

// NewRetry marks err as worth trying again. It returns nil for nil, as the other constructors do.
func NewRetry(reason string, err error) error { return mark(Retry, reason, err) }

// NewWait marks err as a normal wait.
func NewWait(reason string, err error) error { return mark(Wait, reason, err) }

// NewStalled marks err as one that needs a person.
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
		return &Error{Kind: e.Kind, Reason: e.Reason, Err: err}
	}
	return &Error{Kind: Retry, Reason: otherwise, Err: err}
}
