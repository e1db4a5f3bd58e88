package plane

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

// maxLog is a size in bytes. If a log is larger, the next start renames it to <name>.log.1. Only one old log remains.
const maxLog = 8 << 20

func openLog(path string, args []string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	if err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("renaming the old log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	fmt.Fprintf(f, "\n=== %s %s\n", time.Now().UTC().Format(time.RFC3339), strings.Join(args, " "))
	return f, nil
}

// tailBytes is the maximum number of bytes that TailLog reads at the end of a log.
const tailBytes = 8 << 10

// TailLog returns the last lines of a log file, or nothing if it cannot read the file.
func TailLog(path string, lines int) string {
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
