package host

import "fmt"

// UnsafePathError is a path that the daemon does not open, because a user of the node could lead it to files of another owner.
type UnsafePathError struct {
	// Path that was to be opened.
	Path string
	// Component is the directory, link or file on the way to Path at which the daemon stopped.
	Component string
	// UID of the user who controls the component; AnyUser where several users can change it.
	UID int
	// Why the daemon does not go on, in words that name the owners.
	Why string
	// Fix is what an administrator does about it.
	Fix string
}

// AnyUser is the UID of a component that several users can change.
const AnyUser = -1

// Error says what was refused, where, why, and what helps.
func (e *UnsafePathError) Error() string {
	return fmt.Sprintf("unsafe path %s: %s", e.Path, e.Reason())
}

// Reason says why the path is refused and what helps, without the path itself.
func (e *UnsafePathError) Reason() string { return e.Why + "; " + e.Fix }
