package host

import "fmt"

// UnsafePathError reports a path that the daemon does not open, because a user of the node could redirect it to files
// of another owner.
type UnsafePathError struct {
	// Path is the path to open.
	Path string
	// Component is the directory, link or file on the way to Path at which the daemon stopped.
	Component string
	// UID is the user who controls the component; AnyUser if several users can change it.
	UID int
	// Why is the reason, with the names of the owners.
	Why string
	// Fix says how an administrator makes the path safe.
	Fix string
}

// AnyUser is the UID of a component that several users can change.
const AnyUser = -1

// Error returns a text that says which path the daemon refused, at which component, why, and how an administrator fixes
// it.
func (e *UnsafePathError) Error() string {
	return fmt.Sprintf("unsafe path %s: %s", e.Path, e.Reason())
}

// Reason says why the path was refused and how to fix it, without the path.
func (e *UnsafePathError) Reason() string { return e.Why + "; " + e.Fix }
