package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest is the sha256 of some contents in lower-case hex; "" where there are none; NotRead where nobody knows them.
type Digest string

// DigestOf computes the digest of contents. The empty file has a digest too.
func DigestOf(contents []byte) Digest {
	sum := sha256.Sum256(contents)
	return Digest(hex.EncodeToString(sum[:]))
}

// NotRead stands for the digest of a file that is too large to be read; it is the digest of nothing. Files of the same size
// have the same.
func NotRead(bytes int64) Digest { return Digest(fmt.Sprintf("not-read-%d-bytes", bytes)) }

// Short is enough of a digest for people.
func (d Digest) Short() string { return string(d[:min(len(d), 8)]) }

// Kind says what is at a path.
type Kind string

// What may be at a path. Other is a device, socket or pipe: nothing that the daemon makes or replaces. Hard is a further name
// of what is at Target, an absolute path of the machine; Stat never tells it, for every name of a file is as good. Unsafe is a
// path that the daemon does not open, see UnsafePathError; Stat never tells it either.
const (
	Absent Kind = ""
	File   Kind = "file"
	Link   Kind = "link"
	Dir    Kind = "dir"
	Hard   Kind = "hard link"
	Other  Kind = "other"
	Unsafe Kind = "unsafe path"
)

// Owner is a numeric owner; the zero value is root.
type Owner struct {
	// UID and GID as in the file system.
	UID, GID int
}

// Entry is what is at one path, without following a link there. The zero value says that nothing is.
type Entry struct {
	// Kind of thing.
	Kind Kind `json:",omitempty"`
	// Mode has the permission bits of a file or directory, at most 07777; 0 for a link.
	Mode uint32 `json:",omitempty"`
	// Owner of the thing itself, also of a link.
	Owner Owner `json:",omitzero"`
	// Digest of a file's contents.
	Digest Digest `json:",omitempty"`
	// Target of a link, as written.
	Target string `json:",omitempty"`
}

// String is canonical: `file 0644 1f2e3d4c`, `link -> /dev/null`, `dir 0755 1000:1000`, `absent`.
func (e Entry) String() string {
	var b strings.Builder
	switch e.Kind {
	case Absent:
		return "absent"
	case Link:
		fmt.Fprintf(&b, "link -> %s", e.Target)
	case Hard:
		return "hard link to " + e.Target
	case Unsafe:
		return string(e.Kind)
	case File:
		fmt.Fprintf(&b, "file %04o %s", e.Mode, e.Digest.Short())
	default:
		fmt.Fprintf(&b, "%s %04o", e.Kind, e.Mode)
	}
	if e.Owner != (Owner{}) {
		fmt.Fprintf(&b, " %d:%d", e.Owner.UID, e.Owner.GID)
	}
	return b.String()
}
