package fault

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// PanicError is a panic in the work for one thing: a config, an object, a file. It is a mistake in Bunsen or one of
// its libraries, and a failure of that one thing only.
type PanicError struct {
	// What went wrong: the text of the Go runtime, or the type of the panic's value. The value itself may be a part of
	// a config or of a secret.
	What string
	// At is the file with its directory, and the line; empty if unknown.
	At string
}

// Error says what happened, where, and what to do.
func (e *PanicError) Error() string {
	at := ""
	if e.At != "" {
		at = " at " + e.At
	}
	return fmt.Sprintf("Bunsen made a mistake of its own%s (%s): please report it", at, e.What)
}

// Recover turns a panic into an error. It is for a defer statement at the boundary of the work for one thing, so that
// one config, object or file cannot end a process that serves others.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = NewPanic(p)
	}
}

// NewPanic returns the error of a panic with the value p. Only a deferred function that recovers p may call it.
func NewPanic(p any) error { return &PanicError{What: what(p), At: panicked()} }

func what(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("panic of type %T", p)
}

// panicked returns where the panic began that a deferred function recovers.
func panicked() string {
	stack := make([]uintptr, 64)
	frames := runtime.CallersFrames(stack[:runtime.Callers(1, stack)])
	began := false
	for {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		switch {
		case f.Function == "runtime.gopanic":
			began = true
		case began && !inRuntime:
			return fmt.Sprintf("%s:%d", path.Join(path.Base(path.Dir(f.File)), path.Base(f.File)), f.Line)
		}
		if !more {
			return ""
		}
	}
}
