//go:build unix

package results

import (
	"io/fs"
	"os"
	"syscall"
)

// noFollow are flags for a file that is no link and no pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// isPrivate reports whether a file or directory belongs to this user, and nobody else can read or write it. Whoever can
// write results decides what a check finds.
func isPrivate(info fs.FileInfo) bool {
	owner, known := info.Sys().(*syscall.Stat_t)
	return known && owner.Uid == uint32(os.Geteuid()) && info.Mode().Perm()&0o077 == 0
}
