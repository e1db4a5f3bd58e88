package files

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// streamed is how many bytes of a large file are in memory at a time.
const streamed = 1 << 20

// WriteFrom replaces a file as Write does, with all bytes of a reader. If the reader fails, the path does not change.
func (r *Root) WriteFrom(p string, want host.Entry, from io.Reader) error {
	return r.writeWith(p, newFile{want, r.batching},
		func(tmp openName, fd int) error { return tmp.copyFrom(fd, from) })
}

func (a openName) copyFrom(fd int, from io.Reader) error {
	part := make([]byte, streamed)
	for {
		have := 0
		var err error
		for have < len(part) && err == nil {
			var n int
			n, err = from.Read(part[have:])
			have += n
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if bad := a.writeContents(fd, part[:have]); bad != nil || err != nil {
			return bad
		}
	}
}

// OpenRead opens a regular file, and returns its size.
func (r *Root) OpenRead(p string) (f io.ReadCloser, size int64, _ error) {
	a, err := r.at(p)
	if err != nil {
		return nil, 0, err
	}
	defer a.close()
	fd, err := a.open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	if err != nil {
		return nil, 0, err
	}
	is, err := regular(fd, p)
	if err != nil {
		unix.Close(fd) //nolint:errcheck,gosec // only read
		return nil, 0, err
	}
	return os.NewFile(uintptr(fd), p), is.Size, nil
}

// Size returns the size of a file, or of what else is at the path.
func (r *Root) Size(p string) (int64, error) {
	a, err := r.at(p)
	if err != nil {
		return 0, err
	}
	defer a.close()
	is, err := a.stat()
	return is.Size, err
}

// Appender adds bytes to the end of a file.
type Appender struct {
	at openName
	fd int
}

// Append opens a file that only root can read, or creates it. The parent directory must exist.
func (r *Root) Append(p string) (*Appender, error) {
	a, err := r.at(p)
	if err != nil {
		return nil, err
	}
	var fd int
	err = a.change("create", func() error {
		fd, err = unix.Openat(a.dir, a.name, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC,
			0o600)
		return err
	})
	if err != nil {
		a.close()
		return nil, err
	}
	return &Appender{a, fd}, nil
}

// Write implements io.Writer.
func (w *Appender) Write(part []byte) (int, error) {
	if err := w.at.writeContents(w.fd, part); err != nil {
		return 0, err
	}
	return len(part), nil
}

// Close makes the file durable and closes it.
func (w *Appender) Close() error {
	err := w.at.sync(w.fd)
	unix.Close(w.fd) //nolint:errcheck,gosec // it is durable, or the error says so
	w.at.close()
	return err
}

// Rename gives a file another name in the same directory. The new name is durable when Rename returns.
func (r *Root) Rename(p, name string) error {
	a, err := r.at(p)
	if err != nil {
		return err
	}
	defer a.close()
	to := a.sibling(name)
	if err := a.rename(to); err != nil {
		return err
	}
	return r.nameChanged(to, false)
}

// Volume returns the device of the file system of a directory, and the bytes that root can still write to it.
func (r *Root) Volume(dir string) (device uint64, free int64, _ error) {
	err := r.eachIn(dir, func(_ openName, fd int) error {
		var is unix.Stat_t
		var of unix.Statfs_t
		if err := errors.Join(unix.Fstat(fd, &is), unix.Fstatfs(fd, &of)); err != nil {
			return pathError("statfs", dir, err)
		}
		device, free = is.Dev, int64(of.Bfree)*of.Bsize //nolint:gosec // sizes fit
		return nil
	})
	return device, free, err
}

// Space returns the free bytes and the size of the file system of a directory.
func (r *Root) Space(dir string) (free, total int64, _ error) {
	err := r.eachIn(dir, func(_ openName, fd int) error {
		var of unix.Statfs_t
		if err := unix.Fstatfs(fd, &of); err != nil {
			return pathError("statfs", dir, err)
		}
		free, total = int64(of.Bavail)*of.Bsize, int64(of.Blocks)*of.Bsize //nolint:gosec // sizes fit
		return nil
	})
	return free, total, err
}
