package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bunsen-os/bunsen/mcd/host"
	"golang.org/x/sys/unix"
)

// maxRead is the maximum size of a file that the daemon reads. The size is larger than any config can be, and fits into
// memory. maxRead does not limit the daemon's own files. maxDigest is the maximum size of a file whose digest the
// daemon computes, which downloaded files can have.
const (
	maxRead   = 256 << 20
	maxDigest = host.MaxDownload
)

// chunk is how many bytes are read at a time to compute a digest.
const chunk = 16 << 10

// largeError reports a file that is too large to read.
type largeError struct {
	path       string
	size, most int64
}

// Error says what a user can do.
func (e *largeError) Error() string {
	return fmt.Sprintf("%s has %d bytes, and the daemon reads files of at most %d MiB: move it away", e.path, e.size,
		e.most>>20)
}

// Stat implements host.Files. The digest of a file that is too large to read is host.NotRead.
func (d *disk) Stat(p string) (host.Entry, error) {
	a, err := d.at(p)
	if IsAbsent(err) {
		return host.Entry{}, nil
	}
	if err != nil {
		return host.Entry{}, err
	}
	defer a.close()
	fd, err := a.open(unix.O_PATH)
	if IsAbsent(err) {
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
	e := d.entry(is)
	switch e.Kind {
	case host.File:
		if is.Size == 0 && empty(fd) {
			e.Digest = host.DigestOf(nil)
			return e, nil
		}
		return a.statFile()
	case host.Link:
		e.Target, err = targetOf(fd, p)
	}
	return e, err
}

// Lookup returns the kind of a path, and the target of a link. Lookup does not read the file.
func (t *tree) Lookup(p string) (kind host.Kind, target string, _ error) {
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

// Modified returns when a path was last modified; zero if it does not exist.
func (t *tree) Modified(p string) time.Time {
	a, err := t.at(p)
	if err != nil {
		return time.Time{}
	}
	defer a.close()
	is, err := a.stat()
	if err != nil {
		return time.Time{}
	}
	return time.Unix(is.Mtim.Unix())
}

// WithDir calls a function with the descriptor of a directory, if it exists. WithDir follows links.
func (t *tree) WithDir(dir string, do func(fd int) error) error {
	return t.within(dir, func(a openName) error { return do(a.dir) })
}

// List returns the names in a directory, sorted. A directory that does not exist has none.
func (t *tree) List(dir string) (names []string, _ error) {
	err := t.eachIn(dir, func(_ openName, fd int) error {
		twin, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return pathError("open", dir, err)
		}
		f := os.NewFile(uintptr(twin), dir)
		defer f.Close() //nolint:errcheck // only read
		names, err = f.Readdirnames(-1)
		return err
	})
	slices.Sort(names)
	if IsAbsent(err) {
		return nil, nil
	}
	return names, err
}

// targetOf returns the target of an open link.
func targetOf(fd int, p string) (string, error) {
	var to [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", to[:])
	if err != nil {
		return "", pathError("readlink", p, err)
	}
	return string(to[:n]), nil
}

// sized are file systems that report the size of their files. Files of /proc and /sys have contents although their size
// is 0.
var sized = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC,
	unix.OVERLAYFS_SUPER_MAGIC,
}

// empty reports whether a file of size 0 has no contents.
func empty(fd int) bool {
	var of unix.Statfs_t
	return unix.Fstatfs(fd, &of) == nil && slices.Contains(sized, of.Type)
}

// statFile returns the entry of a regular file with its digest.
func (a openName) statFile() (e host.Entry, _ error) {
	err := a.reading(func(fd int) error {
		is, err := regular(fd, a.path)
		e = a.root.entry(is)
		if err == nil {
			e.Digest, err = digestOf(fd, a.path, is.Size, a.root.maxDigest)
		}
		return err
	})
	var large *largeError
	switch {
	case IsAbsent(err):
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
	return r.readFile(p, r.maxRead)
}

// readOwn reads one of the daemon's own files, without a limit of its size.
func (t *tree) readOwn(p string) ([]byte, error) {
	return t.readFile(p, math.MaxInt64)
}

// readFile reads a regular file.
func (t *tree) readFile(p string, most int64) (contents []byte, _ error) {
	a, err := t.at(p)
	if err != nil {
		return nil, err
	}
	defer a.close()
	err = a.reading(func(fd int) error {
		is, err := regular(fd, p)
		if err == nil {
			err = a.checkRead(is)
		}
		if err == nil {
			contents, err = readAll(fd, p, is.Size, most)
		}
		return err
	})
	return contents, err
}

// checkRead reports whether the daemon may copy the contents of a file. A user who controls the directory may have
// created a hard link to a file of another user, and could then read its contents in the copy.
func (a openName) checkRead(is unix.Stat_t) error {
	if a.root.privileged && a.shared && is.Nlink > 1 && (a.holder <= 0 || int(is.Uid) != a.holder) {
		return a.unsafe(fmt.Sprintf("what is there is a hard link to a file of uid %d", is.Uid))
	}
	return nil
}

// replacedFile is a file that an update replaces.
type replacedFile struct {
	contents []byte
	// label is what the store restores with a file of the same owner. uid is the user who can change it.
	label label
	uid   int
	// was has all else, without the digest.
	was original
}

// readReplaced reads a regular file with all that the store keeps of it. If most is 0, it does not read the contents.
func (t *tree) readReplaced(p string, most int64) (f replacedFile, _ error) {
	a, err := t.at(p)
	if err != nil {
		return f, err
	}
	defer a.close()
	err = a.reading(func(fd int) error {
		is, err := regular(fd, p)
		if err == nil && most > 0 {
			f.contents, err = readAll(fd, p, is.Size, most)
		}
		if err == nil {
			f.label, f.uid, err = t.labelAt(fd, p)
		}
		if err == nil && t.privileged {
			f.was = original{Entry: t.entry(is), Modified: is.Mtim}
			f.was.Attributes, err = attributesOf(fd, p, func(name string) bool { return t.restores(name, f.uid) })
		}
		return err
	})
	return f, err
}

// restores reports whether a restored file gets an attribute back that no other new file gets. A user who controls the
// file could change its contents while the daemon restores it, so such a file gets only what the user could set too: no
// capabilities.
func (t *tree) restores(name string, controller int) bool {
	return !t.carries(name) && (controller == 0 || strings.HasPrefix(name, "system.posix_acl"))
}

// reading opens a path that may be a regular file.
func (a openName) reading(do func(fd int) error) error {
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

// regular returns the status of an open file, which must be a regular file.
func regular(fd int, p string) (is unix.Stat_t, _ error) {
	if err := unix.Fstat(fd, &is); err != nil {
		return is, pathError("stat", p, err)
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG {
		return is, notRegular(p)
	}
	return is, nil
}

// digestOf computes the digest of an open file in parts. digestOf reads a growing file until the file is too large.
// digestOf also reads a file of size 0, which may be a file of /proc.
func digestOf(fd int, p string, size, most int64) (host.Digest, error) {
	if size > most {
		return "", &largeError{p, size, most}
	}
	var part [chunk]byte
	sum := sha256.New()
	for have := int64(0); ; {
		n, err := retry(func() (int, error) { return unix.Read(fd, part[:]) })
		if err != nil {
			return "", pathError("read", p, err)
		}
		have += int64(n)
		switch {
		case have > most:
			return "", &largeError{p, have, most}
		case have == int64(n) && (n == 0 || have == size): // The first part has the whole file, as for most files.
			return host.DigestOf(part[:n]), nil
		}
		sum.Write(part[:n]) //nolint:errcheck,gosec // never fails
		if n == 0 || have == size {
			return host.Digest(hex.EncodeToString(sum.Sum(nil))), nil
		}
	}
}

// readAll returns the contents of an open file, with the limits of digestOf.
func readAll(fd int, p string, size, most int64) ([]byte, error) {
	if size > most {
		return nil, &largeError{p, size, most}
	}
	contents := make([]byte, size+1) // readAll reads one byte more than the size, which shows whether the file grows.
	for have := 0; ; {
		n, err := retry(func() (int, error) { return unix.Read(fd, contents[have:]) })
		if err != nil {
			return nil, pathError("read", p, err)
		}
		have += n
		switch {
		case int64(have) > most:
			return nil, &largeError{p, int64(have), most}
		case n == 0 || size > 0 && int64(have) == size:
			return contents[:have:have], nil
		case have == len(contents): // The file grows, or its size was unknown.
			contents = append(contents, make([]byte, max(512, have))...)
		}
	}
}
