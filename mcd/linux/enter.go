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

// Enter moves a process in a container into the machine's root, which is mounted at a directory. Enter changes the root
// directory and executes the same binary again. Enter adds the given arguments, which must say that the process is
// already inside of the machine's root. If the process is inside already, Enter returns nil. If not, Enter returns only
// on an error. The kernel executes the file of this process without a copy. So Enter works with a full or read-only
// disk, and with a /run without exec, and leaves no file. The binary must be statically linked, because a dynamic one
// would need the machine's loader.
//
// The caller must call Enter before anything else, because goroutines, open files and locks end with the old process.
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
			return fmt.Errorf("entering the machine's root %s: it has no /%s (%w). Mount the hostPath / there with "+
				"mountPropagation HostToContainer, and set hostPID", dir, needed, errors.Unwrap(err))
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
	return fmt.Errorf("executing this program inside of the machine's root: %w; a binary that is not static cannot",
		err)
}

// isRoot reports whether a directory is the root of this process.
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
		return false, fmt.Errorf("entering the machine's root: %w", &fs.PathError{
			Op: "chroot", Path: dir,
			Err: unix.ENOTDIR,
		})
	}
	return os.SameFile(at, own), nil
}

// toolPath has the directories of the machine's tools. The PATH of the container does not apply inside the machine's
// root.
const toolPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the container's environment without variables that apply only in the container.
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

// nameProcess sets the name of the process, because the kernel names a process after the executed descriptor.
func nameProcess() {
	comm, err := os.ReadFile("/proc/self/comm")
	if _, bad := strconv.Atoi(strings.TrimSpace(string(comm))); err == nil && bad == nil {
		// An error is ignored, because the name is only for users who read the output of ps.
		_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0)
	}
}
