package plane

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// Port is a TCP port on 127.0.0.1 that a component will listen on.
type Port struct {
	// Number is the number of the port, from 1 to 65535.
	Number int
	// Purpose names the listening component, such as "Kubernetes API".
	Purpose string
	// Flag is the flag that changes the number, such as "--api-port".
	Flag string
}

// TakenPort is a port that is not available.
type TakenPort struct {
	Port
	// Holder is the process that listens on the port. Holder is empty if the process is unknown.
	Holder string
	// Err is the error of the kernel.
	Err error
}

// PortConflictError lists all ports that are not available.
type PortConflictError struct{ Taken []TakenPort }

// Error returns one line for each port, which also says what a user can do.
func (e *PortConflictError) Error() string {
	lines := make([]string, 0, len(e.Taken))
	for _, t := range e.Taken {
		lines = append(lines, t.describe())
	}
	return strings.Join(lines, "\n")
}

func (t TakenPort) describe() string {
	why := "is not available: " + t.Err.Error()
	if errors.Is(t.Err, syscall.EADDRINUSE) {
		why = "is in use"
		if t.Holder != "" {
			why += " by " + t.Holder
		}
	}
	return fmt.Sprintf("port %d for the %s %s: stop that process, or set another port with %s", t.Number, t.Purpose,
		why, t.Flag)
}

// CheckPorts listens on each port for a moment. If ports are taken, CheckPorts returns a *PortConflictError with all of
// these ports. For two purposes with one number, or a number out of range, it returns another error.
func CheckPorts(wanted []Port) error {
	if err := validatePorts(wanted); err != nil {
		return err
	}
	var taken []TakenPort
	for _, p := range wanted {
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)))
		if err == nil {
			l.Close()
			continue
		}
		taken = append(taken, TakenPort{Port: p, Holder: PortHolder(p.Number), Err: errnoOf(err)})
	}
	if len(taken) == 0 {
		return nil
	}
	return &PortConflictError{Taken: taken}
}

func validatePorts(wanted []Port) error {
	var errs []error
	seen := map[int]Port{}
	for _, p := range wanted {
		if p.Number < 1 || p.Number > 65535 {
			errs = append(errs, fmt.Errorf("%s is %d: a port is 1 to 65535", p.Flag, p.Number))
		}
		if other, dup := seen[p.Number]; dup {
			errs = append(errs, fmt.Errorf("%s and %s are both %d: give each its own port", other.Flag, p.Flag,
				p.Number))
		}
		seen[p.Number] = p
	}
	return errors.Join(errs...)
}

func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
