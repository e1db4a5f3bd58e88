package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Enter lets a process that runs in a container go on inside of the machine's root, which is mounted at a directory: it
// changes its root and executes itself anew, with the same arguments and those given at the end, which have to say that
// it is inside now. It returns nil where it is inside already, and else only an error. Nothing is copied: the kernel
// executes the file that this process was started from, so neither a /run without exec nor a full or read-only disk is in
// the way, and nothing is left behind. The binary has to be static: a loader would be the machine's own.
//
// It is called first of all: other goroutines, open files and locks end with the old process.
func Enter(dir string, inside ...string) error {
	in, err := isRoot(dir)
	if err != nil || in {
		if in {
			nameProcess()
		}
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("entering the machine's root %s: only root can", dir)
	}
	for _, needed := range []string{"proc/self/fd", "etc"} {
		if _, err := os.Stat(filepath.Join(dir, needed)); err != nil {
			return fmt.Errorf("entering the machine's root %s: it has no /%s (%w): mount the machine's / there with all that is mounted in it (hostPath / with mountPropagation HostToContainer, and hostPID)", dir, needed, errors.Unwrap(err))
		}
	}
	self, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("entering the machine's root: opening this program: %w", err)
	}
	defer unix.Close(self) //nolint:errcheck // only a place, and gone when all goes well
	if err := unix.Chroot(dir); err != nil {
		return fmt.Errorf("entering the machine's root %s: %w", dir, err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("entering the machine's root %s: %w", dir, err)
	}
	args := append(append([]string{}, os.Args...), inside...)
	err = unix.Exec("/proc/self/fd/"+strconv.Itoa(self), args, environment(os.Environ()))
	return fmt.Errorf("executing this program inside of the machine's root: %w; a binary that is not static cannot", err)
}

// isRoot tells whether a directory is the root of this process.
func isRoot(dir string) (bool, error) {
	if filepath.Clean(dir) == "/" {
		return true, nil
	}
	at, err := os.Stat(dir)
	if err != nil {
		return false, fmt.Errorf("entering the machine's root: %w", err)
	}
	own, err := os.Stat("/")
	if err != nil {
		return false, fmt.Errorf("entering the machine's root: %w", err)
	}
	if !at.IsDir() {
		return false, fmt.Errorf("entering the machine's root: %w", &fs.PathError{Op: "chroot", Path: dir, Err: unix.ENOTDIR})
	}
	return os.SameFile(at, own), nil
}

// toolPath is where a machine has its tools; a container's own PATH means nothing there.
const toolPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is a container's, without what holds in the container only.
func environment(was []string) (is []string) {
	for _, v := range was {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD":
		default:
			is = append(is, v)
		}
	}
	return append(is, "PATH="+toolPath, "HOME=/root")
}

// nameProcess gives a process back the name that it lost: the kernel names one that was executed by its number.
func nameProcess() {
	comm, err := os.ReadFile("/proc/self/comm")
	if _, bad := strconv.Atoi(strings.TrimSpace(string(comm))); err == nil && bad == nil {
		_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0) // only for people who read ps
	}
}
