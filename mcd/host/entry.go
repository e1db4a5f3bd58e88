package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// Digest is the SHA-256 of contents in lower-case hex. Digest is "" if there are no contents, and NotRead if the
// contents were not read.
type Digest string

// DigestOf computes the digest of contents. The empty file has a digest too.
func DigestOf(contents []byte) Digest {
	sum := sha256.Sum256(contents)
	return Digest(hex.EncodeToString(sum[:]))
}

// RemoteDigest returns the digest of remote contents from their hash in a config. The hash sha512-HEX does not say the
// SHA-256 of the contents. Until they are downloaded, the hash itself stands for it, and no file has this digest.
func RemoteDigest(hash string) Digest { return Digest(strings.TrimPrefix(hash, "sha256-")) }

// MaxDownload is the maximum size of a remote file, in bytes.
const MaxDownload = 1 << 30

// NotRead returns the placeholder for the digest of a file that is too large to read. Files of the same size have the
// same placeholder.
func NotRead(bytes int64) Digest { return Digest(fmt.Sprintf("not-read-%d-bytes", bytes)) }

// Short returns the first characters of a digest, for messages.
func (d Digest) Short() string { return string(d[:min(len(d), 8)]) }

// Kind is the kind of file at a path.
type Kind string

// The kinds. Other is a device, socket or pipe, which the daemon neither creates nor replaces. Hard is a hard link to
// Target, an absolute path. Unsafe is a path that the daemon does not open (UnsafePathError). Stat returns neither Hard
// nor Unsafe.
const (
	Absent Kind = ""
	File   Kind = "file"
	Link   Kind = "link"
	Dir    Kind = "dir"
	Hard   Kind = "hard link"
	Other  Kind = "other"
	Unsafe Kind = "unsafe path"
)

// MaxLinks is how many links the kernel follows when it opens a file.
const MaxLinks = 40

// LinkTarget returns the path to which a link at a path leads. The parameter target is the content of the link.
func LinkTarget(at, target string) string {
	if path.IsAbs(target) {
		return path.Clean(target)
	}
	return path.Join(path.Dir(at), target)
}

// Owner is a numeric owner; the zero value is root.
type Owner struct {
	// UID and GID are the numbers in the file system.
	UID, GID int
}

// Entry is the file, directory or link at a path. The zero value means that nothing exists there. The entry of a link
// is about the link itself.
type Entry struct {
	Kind Kind `json:",omitempty"`
	// Mode has the permission bits of a file or directory, at most 07777; 0 for a link.
	Mode uint32 `json:",omitempty"`
	// Owner is the owner of the file, directory or link.
	Owner Owner `json:",omitzero"`
	// Digest is the digest of a file's contents.
	Digest Digest `json:",omitempty"`
	// Target is the target of a link, as the link contains it.
	Target string `json:",omitempty"`
}

// String returns the canonical text: `file 0644 1f2e3d4c`, `link -> /dev/null`, `dir 0755 1000:1000`, `absent`.
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
