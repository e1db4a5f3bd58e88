//go:build !windows

package repository

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockNew creates a file that is locked as soon as it has its name. Closing it, or the end of the process, releases the
// lock.
func lockNew(name string) (*os.File, error) {
	f, err := os.OpenFile(name+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// isAbandoned reports whether a directory belongs to this user and has a lock that no process holds.
func isAbandoned(dir, lock string) bool {
	if ownedBy(dir, os.Geteuid()) != nil {
		return false
	}
	f, err := os.OpenFile(filepath.Join(dir, lock), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false // A process has just made the directory.
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
