package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Lock is held by the one process that uses the directory. The kernel lets it
// go when that process ends, however it ends.
type Lock struct{ file *os.File }

// HeldError says who uses the directory.
type HeldError struct {
	// Dir is the data directory.
	Dir Dir
	// PID is the holder's process id as it wrote it; empty when it could not be read.
	PID string
}

// Error says who holds the directory and what to do about it.
func (e *HeldError) Error() string {
	who := "another process"
	if e.PID != "" {
		who = "process " + e.PID
	}
	return fmt.Sprintf("%s is in use by %s: stop that one (Ctrl-C in its terminal, or kill %s), or name another folder with --data",
		e.Dir, who, orPlaceholder(e.PID))
}

func orPlaceholder(pid string) string {
	if pid == "" {
		return "its process id"
	}
	return pid
}

// Lock takes the directory for this process. A *HeldError says who has it.
func (d Dir) Lock() (*Lock, error) {
	f, err := os.OpenFile(d.join("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid, _ := io.ReadAll(io.LimitReader(f, 32))
		f.Close()
		return nil, &HeldError{Dir: d, PID: strings.TrimSpace(string(pid))}
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

// Release lets the directory go. The file stays: removing it would let two
// processes each lock a file of that name.
func (l *Lock) Release() error { return l.file.Close() }

// Holder is the process id of whoever holds the lock now; 0 when nobody does.
func (d Dir) Holder() int {
	f, err := os.Open(d.join("lock"))
	if err != nil {
		return 0
	}
	defer f.Close()
	// A shared lock, let go at once: it is refused only while somebody holds the directory.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return 0
	}
	raw, _ := io.ReadAll(io.LimitReader(f, 32))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	return pid
}
