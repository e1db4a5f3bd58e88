package cli

import (
	"fmt"
)

// The exit codes, which are the same for every verb (docs/cli.md).
const (
	ExitDifferent   = 1
	ExitInvalid     = 2
	exitUnreachable = 3
	ExitTimeout     = 4
	ExitBlocked     = 5
	ExitDegraded    = 6
)

// ExitError carries an exit code. Err is nil if the verb has already printed the reason.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the text of Err, if Err is set.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Invalid returns an error of the input: exit code 2.
func Invalid(err error) error { return &ExitError{ExitInvalid, err} }

// Unreachable returns an error of a cluster or a service that the verb cannot use: exit code 3.
func Unreachable(err error) error { return &ExitError{exitUnreachable, err} }
