package kube

import (
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/fault"
)

// AfterWrite returns the error of a write, nil if it has taken effect. After a missing answer, look says whether the
// object has what was written. So the caller sends its event, or counts, for each write that took effect.
func AfterWrite(err error, look func() (isWritten bool, err error)) error {
	if err = fault.APIRequest(err); !fault.IsUnknown(err) {
		return err
	}
	isWritten, lookErr := look()
	switch {
	case lookErr != nil:
		return errors.Join(err, fmt.Errorf("looking whether it was done: %w", lookErr))
	case isWritten:
		return nil
	}
	return err
}
