//go:build !windows

package repository

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockStore locks a store for this process. Closing the file releases the lock.
func lockStore(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("opening the store %s: another process uses it; give each process a folder of "+
				"its own", dir)
		}
		return nil, fmt.Errorf("locking the store %s: %w", dir, err)
	}
	return lock, nil
}

// ownedBy returns an error unless a path is a directory of one of these users.
func ownedBy(path string, uids ...int) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok {
		return fmt.Errorf("%s is not a directory (%s)", path, info.Mode().Type())
	}
	for _, uid := range uids {
		if int(stat.Uid) == uid {
			return nil
		}
	}
	return fmt.Errorf("%s belongs to user %d, who could replace its content, and this process runs as user %d: name "+
		"another directory", path, stat.Uid, os.Geteuid())
}
