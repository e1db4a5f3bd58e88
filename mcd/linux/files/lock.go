package files

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// The locks of a machine, below host.StateDir. A lock ends with Close or with the process.
const (
	// DaemonLock is locked while a daemon serves the machine: two daemons with one journal would undo each other's
	// work.
	DaemonLock = "lock"
	// ServiceLock is locked while the service of the daemon runs, also while the service waits for DaemonLock.
	ServiceLock = "service.lock"
)

// ErrLocked is the error if another process has the lock.
var ErrLocked = errors.New("another machine-config-daemon serves this machine")

// Lock locks DaemonLock, and does not wait. The error wraps ErrLocked if another process has DaemonLock.
func (r *Root) Lock() error {
	err := TryLock(r, DaemonLock)
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("%w: stop it first", err)
	}
	return err
}

// TryLock locks one of the locks, and does not wait. The error wraps ErrLocked if another process has this lock.
func TryLock(r *Root, name string) error {
	f, err := lockFile(r, name, syscall.LOCK_EX)
	if err == nil {
		r.locks = append(r.locks, f)
	}
	return err
}

// Locked reports whether another process, or another Root, has a lock.
func Locked(r *Root, name string) (bool, error) {
	f, err := lockFile(r, name, syscall.LOCK_SH)
	switch {
	case errors.Is(err, ErrLocked):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, f.Close()
}

func lockFile(r *Root, name string, how int) (*os.File, error) {
	if err := makeStateDir(r.disk); err != nil {
		return nil, err
	}
	a, err := r.at(host.StateDir + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("locking the machine: %w", err)
	}
	defer a.close()
	fd, err := retry(func() (int, error) {
		return unix.Openat(a.dir, a.name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return nil, fmt.Errorf("locking the machine: %w", pathError("open", a.path, err))
	}
	f := os.NewFile(uintptr(fd), a.path) //nolint:gosec // a descriptor is positive
	err = syscall.Flock(fd, how|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close() //nolint:errcheck,gosec // nothing was written
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("locking %s/%s: %w", host.StateDir, name, ErrLocked)
	}
	return nil, fmt.Errorf("locking %s/%s: %w", host.StateDir, name, err)
}
