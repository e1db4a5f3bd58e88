package transport

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// longestRetryAfter limits how long a server can delay the next request.
const longestRetryAfter = time.Hour

// BusyError is the error for a server that answers that it does not serve requests now. The text omits how long to
// wait, because this time differs in each answer.
type BusyError struct {
	code  int
	after time.Duration
}

// Error returns the status of the answer.
func (e *BusyError) Error() string { return fmt.Sprintf("%d %s", e.code, http.StatusText(e.code)) }

// IsBusy returns a function that reports whether an error is an answer with the status code.
func IsBusy(code int) func(error) bool {
	return func(err error) bool {
		var busy *BusyError
		return errors.As(err, &busy) && busy.code == code
	}
}

// WaitOf returns how long the server asks the client to wait, or 0.
func WaitOf(err error) time.Duration {
	var busy *BusyError
	if errors.As(err, &busy) {
		return busy.after
	}
	return 0
}

// RetryAfter reads the header Retry-After, which is a number of seconds or a date (RFC 9110, 10.2.3). RetryAfter
// returns 0 for an invalid value and for a date in the past, and at most longestRetryAfter.
func RetryAfter(header string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 63); err == nil {
		wait = time.Duration(min(seconds, uint64(longestRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longestRetryAfter)
}
