package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// maxLog is the size in bytes from which a log is set aside, as <name>.log.1,
// before the next start writes to it. One old log is kept.
const maxLog = 8 << 20

func openLog(path string, args []string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	if err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("setting the old log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	fmt.Fprintf(f, "\n=== %s %s\n", time.Now().UTC().Format(time.RFC3339), strings.Join(args, " "))
	return f, nil
}

// tailBytes is how far from the end of a log Tail looks for lines.
const tailBytes = 8 << 10

// Tail returns the last lines of a log file; nothing where it cannot be read.
func Tail(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = f.Seek(-tailBytes, io.SeekEnd)
	}
	raw, _ := io.ReadAll(f)
	all := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
