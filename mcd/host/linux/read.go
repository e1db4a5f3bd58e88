package linux

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// most is how many bytes a file may have whose contents are looked at: far more than any config can say, and little enough
// to be held in memory. The daemon's own files are read whole.
const most = 256 << 20

// chunk is how much is read at a time of what is only looked at.
const chunk = 16 << 10

// largeError is a file that was not read, because it is too large.
type largeError struct {
	path       string
	size, most int64
}

// Error says what can be done about it.
func (e *largeError) Error() string {
	return fmt.Sprintf("%s has %d bytes, and of a file with more than %d MiB nobody reads or keeps the contents: move it away", e.path, e.size, e.most>>20)
}

// Stat implements host.Files. Of a file that is too large to be read, the digest is host.NotRead.
func (r *Root) Stat(p string) (host.Entry, error) {
	a, err := r.at(p)
	if gone(err) {
		return host.Entry{}, nil
	}
	if err != nil {
		return host.Entry{}, err
	}
	defer a.close()
	fd, err := a.open(unix.O_PATH)
	if gone(err) {
		return host.Entry{}, nil
	}
	if err != nil {
		return host.Entry{}, err
	}
	defer unix.Close(fd) //nolint:errcheck // only looked at
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return host.Entry{}, pathError("stat", p, err)
	}
	e := r.entry(is)
	switch e.Kind {
	case host.File:
		if is.Size == 0 && empty(fd) {
			e.Digest = host.DigestOf(nil)
			return e, nil
		}
		return statFile(a)
	case host.Link:
		e.Target, err = targetOf(fd, p)
	}
	return e, err
}

// look tells what kind of thing is at a path, and where a link there leads. It reads no file.
func (t *tree) look(p string) (kind host.Kind, target string, _ error) {
	fd, err := t.open(p, unix.O_PATH)
	if err != nil {
		return host.Absent, "", err
	}
	defer unix.Close(fd) //nolint:errcheck // only looked at
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return host.Absent, "", pathError("stat", p, err)
	}
	if kind = t.entry(is).Kind; kind == host.Link {
		target, err = targetOf(fd, p)
	}
	return kind, target, err
}

// targetOf reads an open link.
func targetOf(fd int, p string) (string, error) {
	var to [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", to[:])
	if err != nil {
		return "", pathError("readlink", p, err)
	}
	return string(to[:n]), nil
}

// sized are file systems that know how large their files are. The kernel's own have contents where the size is 0.
var sized = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC}

// empty tells that a file of size 0 has no contents.
func empty(fd int) bool {
	var of unix.Statfs_t
	return unix.Fstatfs(fd, &of) == nil && slices.Contains(sized, of.Type)
}

// statFile tells about what was a regular file a moment ago.
func statFile(a at) (e host.Entry, _ error) {
	err := reading(a, func(fd int) error {
		is, err := regular(fd, a.path)
		e = a.root.entry(is)
		if err == nil {
			e.Digest, err = digestOf(fd, a.path, is.Size, a.root.most)
		}
		return err
	})
	var large *largeError
	switch {
	case gone(err):
		return host.Entry{}, nil
	case errors.As(err, &large):
		e.Digest = host.NotRead(large.size)
	case err != nil:
		return host.Entry{}, err
	}
	return e, nil
}

// Read implements host.Files. A file that is too large is an error.
func (r *Root) Read(p string) ([]byte, error) {
	return readFile(r.tree, p, r.most)
}

// readOwn reads one of the daemon's own files, which holds what other files had.
func readOwn(t *tree, p string) ([]byte, error) {
	return readFile(t, p, math.MaxInt64)
}

// readFile reads a regular file.
func readFile(t *tree, p string, most int64) (contents []byte, _ error) {
	a, err := t.at(p)
	if err != nil {
		return nil, err
	}
	defer a.close()
	err = reading(a, func(fd int) error {
		is, err := regular(fd, p)
		if err == nil {
			err = mayRead(a, is)
		}
		if err == nil {
			contents, err = readAll(fd, p, is.Size, most)
		}
		return err
	})
	return contents, err
}

// readLabelled reads a regular file, what is attached to it, and who can change that. It is for the store, which gives both back to
// a file of the same owner.
func (t *tree) readLabelled(p string, most int64) (contents []byte, l label, uid int, err error) {
	a, err := t.at(p)
	if err != nil {
		return nil, nil, 0, err
	}
	defer a.close()
	err = reading(a, func(fd int) error {
		is, err := regular(fd, p)
		if err == nil {
			contents, err = readAll(fd, p, is.Size, most)
		}
		if err == nil {
			l, uid, err = t.labelAt(fd, p)
		}
		return err
	})
	return contents, l, uid, err
}

// reading opens what may be a regular file.
func reading(a at, do func(fd int) error) error {
	fd, err := a.open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	if errors.Is(err, syscall.ELOOP) {
		return notRegular(a.path)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	return do(fd)
}

func notRegular(p string) error { return fmt.Errorf("%s is not a regular file", p) }

// regular tells what an open file is, which has to be a regular one.
func regular(fd int, p string) (is unix.Stat_t, _ error) {
	if err := unix.Fstat(fd, &is); err != nil {
		return is, pathError("stat", p, err)
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG {
		return is, notRegular(p)
	}
	return is, nil
}

// digestOf reads an open file of some size without holding more than a part of it. A file that grows meanwhile is read
// until it is too large, and one of size 0 too: it may be one of the kernel's, of which nobody knows the size before.
func digestOf(fd int, p string, size, most int64) (host.Digest, error) {
	if size > most {
		return "", &largeError{p, size, most}
	}
	var part [chunk]byte
	sum := sha256.New()
	for have := int64(0); ; {
		n, err := again(func() (int, error) { return unix.Read(fd, part[:]) })
		if err != nil {
			return "", pathError("read", p, err)
		}
		have += int64(n)
		switch {
		case have > most:
			return "", &largeError{p, have, most}
		case have == int64(n) && (n == 0 || have == size): // at once, as most are
			return host.DigestOf(part[:n]), nil
		}
		sum.Write(part[:n]) //nolint:errcheck,gosec // never fails
		if n == 0 || have == size {
			return host.Digest(hex.EncodeToString(sum.Sum(nil))), nil
		}
	}
}

// readAll is digestOf for the contents themselves.
func readAll(fd int, p string, size, most int64) ([]byte, error) {
	if size > most {
		return nil, &largeError{p, size, most}
	}
	contents := make([]byte, size+1) // one more, to see that it grows
	for have := 0; ; {
		n, err := again(func() (int, error) { return unix.Read(fd, contents[have:]) })
		if err != nil {
			return nil, pathError("read", p, err)
		}
		have += n
		switch {
		case int64(have) > most:
			return nil, &largeError{p, int64(have), most}
		case n == 0 || size > 0 && int64(have) == size:
			return contents[:have:have], nil
		case have == len(contents): // it grows, or its size is not known before
			contents = append(contents, make([]byte, max(512, have))...)
		}
	}
}
