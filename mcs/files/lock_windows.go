package files

import (
	"errors"
	"os"
)

// errLocked is the error of lockFile for a file that another process has locked.
var errLocked = errors.New("another process has locked the file")

// lockFile refuses: only a server counts the uses of tokens, and servers run on Linux.
func lockFile(*os.File) error { return errors.New("counting the uses of tokens needs Linux") }
