package plane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Lock is the lock of the one process that uses the directory. The kernel releases it when that process ends.
type Lock struct{ file *os.File }

// InUseError says which process uses the directory.
type InUseError struct {
	// Dir is the data directory.
	Dir Dir
	// PID is the process id that the holder of the lock wrote. PID is empty if it cannot be read.
	PID string
}

// Error returns a text that says which process uses the directory, and what a user can do.
func (e *InUseError) Error() string {
	who := "another process"
	if e.PID != "" {
		who = "process " + e.PID
	}
	return fmt.Sprintf("%s is in use by %s: stop it (Ctrl-C in its terminal, or kill %s), or set another folder "+
		"with --data",
		e.Dir, who, orPlaceholder(e.PID))
}

func orPlaceholder(pid string) string {
	if pid == "" {
		return "its process id"
	}
	return pid
}

// Lock locks the directory for this process. The error is an *InUseError if another process has it.
func (d Dir) Lock() (*Lock, error) {
	f, err := os.OpenFile(d.join("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid, _ := io.ReadAll(io.LimitReader(f, 32))
		f.Close()
		return nil, &InUseError{Dir: d, PID: strings.TrimSpace(string(pid))}
	}
	if err == nil {
		err = writePID(f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	return &Lock{file: f}, nil
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(fmt.Sprintf("%d\n", os.Getpid())), 0)
	return err
}

// Release unlocks the directory. Release does not remove the lock file. If it did, two processes could lock different
// files of the same name.
func (l *Lock) Release() error { return l.file.Close() }

// Holder returns the id of the process that has the lock. It returns 0 if no process has the lock.
func (d Dir) Holder() int {
	f, err := os.Open(d.join("lock"))
	if err != nil {
		return 0
	}
	defer f.Close()
	// Holder tries a shared lock and releases it at once. The attempt fails only while another process has the lock.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return 0
	}
	raw, _ := io.ReadAll(io.LimitReader(f, 32))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	return pid
}
