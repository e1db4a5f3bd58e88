package measure

import (
	"cmp"
	"fmt"
	"os"
)

// Scratch creates a directory for the input of measurements, in memory if possible (or below TMPDIR). Some file systems
// create files many times more slowly for half a minute after many files were removed. So nothing in the directory
// should be removed before done, which removes everything.
func Scratch() (dir string, done func(), err error) {
	const memory = "/dev/shm"
	dir, err = os.MkdirTemp(cmp.Or(os.Getenv("TMPDIR"), memory), "bunsen-bench-")
	if err != nil {
		if dir, err = os.MkdirTemp("", "bunsen-bench-"); err != nil {
			return "", nil, fmt.Errorf("making a directory to measure in: %w", err)
		}
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // a remaining temporary directory does no harm
}
