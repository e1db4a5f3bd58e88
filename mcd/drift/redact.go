package drift

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/textdiff"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// maxText is the largest size of each side, in bytes, for a comparison line by line.
const maxText = 64 << 10

// IsSecret reports whether even the digests of a path must not be reported: an owner marked the path as secret, its
// contents come from a secret, or one side is a file that only its owner can read.
func IsSecret(it Item, marked secretmask.Paths) bool {
	for _, e := range []host.Entry{it.Step.Before.Entry, it.Step.After.Entry} {
		if e.Kind == host.File && e.Mode&0o077 == 0 {
			return true
		}
	}
	return marked.Match(it.Name)
}

// Diff returns the difference of a path for users who may read root's files on the node: a header with the differing
// mode and owner, then a unified diff. The diff hides a file that is secret, and shows only the sizes of binary or
// large files.
func Diff(v Result, config string, expected, actual []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", v.String())
	is, shall := v.Step.Before.Entry, v.Step.After.Entry
	if is.Mode != shall.Mode {
		fmt.Fprintf(&b, "# mode: expected %04o; received %04o\n", shall.Mode, is.Mode)
	}
	if is.Owner != shall.Owner {
		fmt.Fprintf(&b, "# owner: expected %s; received %s\n", owner(shall), owner(is))
	}
	if is.Digest == shall.Digest {
		return b.String()
	}
	fmt.Fprintf(&b, "--- %s (%s)\n+++ %s (this node)\n", v.Name, config, v.Name)
	switch {
	case v.Secret:
		b.WriteString("(hidden: the contents are secret)\n")
	case !readable(expected) || !readable(actual):
		fmt.Fprintf(&b, "(not shown: %d bytes expected, %d bytes received, which are no text or too long)\n",
			len(expected), len(actual))
	default:
		b.WriteString(textdiff.Unified(expected, actual))
	}
	return b.String()
}

// readable reports whether a text can be compared line by line.
func readable(text []byte) bool {
	return len(text) <= maxText && utf8.Valid(text) && !bytes.ContainsRune(text, 0)
}
