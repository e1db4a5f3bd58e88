//go:build !windows

package files

import (
	"os"
	"syscall"
)

// errLocked is the error of lockFile for a file that another process has locked.
const errLocked = syscall.EWOULDBLOCK

// lockFile locks a file for this process until it is closed.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
