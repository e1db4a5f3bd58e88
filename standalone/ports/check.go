package ports

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Port is one TCP port on 127.0.0.1 that a component is going to listen on.
type Port struct {
	// Number is 1 to 65535.
	Number int
	// Purpose is what listens there, in words: "Kubernetes API".
	Purpose string
	// Flag changes the number: "--api-port".
	Flag string
}

// Taken is a port that cannot be listened on.
type Taken struct {
	Port
	// Holder is who has it, in words; empty when that cannot be found out.
	Holder string
	// Err is why the kernel refused.
	Err error
}

// ConflictError lists every port that is not to be had.
type ConflictError struct{ Taken []Taken }

// Error has one line per taken port, each with the way out.
func (e *ConflictError) Error() string {
	lines := make([]string, 0, len(e.Taken))
	for _, t := range e.Taken {
		lines = append(lines, t.describe())
	}
	return strings.Join(lines, "\n")
}

func (t Taken) describe() string {
	why := "cannot be listened on: " + t.Err.Error()
	if errors.Is(t.Err, syscall.EADDRINUSE) {
		why = "is taken"
		if t.Holder != "" {
			why += " by " + t.Holder
		}
	}
	return fmt.Sprintf("port %d, wanted for the %s, %s; stop that, or choose another port with %s", t.Number, t.Purpose, why, t.Flag)
}

// Check listens on each port for a moment. It returns nil or a *ConflictError
// with all that are taken; two purposes on one number or a number out of range
// are plain errors.
func Check(wanted []Port) error {
	if err := sound(wanted); err != nil {
		return err
	}
	var taken []Taken
	for _, p := range wanted {
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)))
		if err == nil {
			l.Close()
			continue
		}
		taken = append(taken, Taken{Port: p, Holder: Holder(p.Number), Err: cause(err)})
	}
	if len(taken) == 0 {
		return nil
	}
	return &ConflictError{Taken: taken}
}

func sound(wanted []Port) error {
	var errs []error
	seen := map[int]Port{}
	for _, p := range wanted {
		if p.Number < 1 || p.Number > 65535 {
			errs = append(errs, fmt.Errorf("%s is %d: a port is 1 to 65535", p.Flag, p.Number))
		}
		if other, dup := seen[p.Number]; dup {
			errs = append(errs, fmt.Errorf("%s and %s are both %d: give each its own port", other.Flag, p.Flag, p.Number))
		}
		seen[p.Number] = p
	}
	return errors.Join(errs...)
}

func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
