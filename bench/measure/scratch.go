package measure

import (
	"cmp"
	"fmt"
	"os"
)

// Scratch makes a directory for what is measured with, in memory where there is such a place (or below TMPDIR): some
// file systems make files many times more slowly for half a minute after many were removed, whoever did so. For the
// same reason nothing in it should be removed before done, which removes all.
func Scratch() (dir string, done func(), err error) {
	const memory = "/dev/shm"
	dir, err = os.MkdirTemp(cmp.Or(os.Getenv("TMPDIR"), memory), "bunsen-bench-")
	if err != nil {
		if dir, err = os.MkdirTemp("", "bunsen-bench-"); err != nil {
			return "", nil, fmt.Errorf("making a directory to measure in: %w", err)
		}
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // a left-over harms nobody
}
