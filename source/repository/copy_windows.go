package repository

import (
	"os"
	"path/filepath"
)

// lockNew creates a file that nobody can remove while it is open.
func lockNew(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// isAbandoned reports whether a directory, which is in the user's own one for temporary files, has a lock that no
// process holds. It removes the lock.
func isAbandoned(dir, lock string) bool { return os.Remove(filepath.Join(dir, lock)) == nil }
