package assets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Link makes dir/<name> a link to the executable for each name. Link creates the folder if it is missing. Link keeps
// files that are not links and returns their names.
func Link(dir, executable string, names ...string) (kept []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("linking to %s: %w", executable, err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("linking to %s: %w", executable, err)
	}
	target := executable
	// If the links are in the folder of the executable, relative links let users move that folder.
	if filepath.Dir(executable) == abs {
		target = filepath.Base(executable)
	}
	for _, name := range names {
		k, err := link(filepath.Join(abs, name), target)
		if err != nil {
			return kept, fmt.Errorf("linking %s to %s: %w", name, executable, err)
		}
		if k {
			kept = append(kept, name)
		}
	}
	return kept, nil
}

func link(path, target string) (kept bool, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, os.Symlink(target, path)
	case err != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink == 0:
		return true, nil
	}
	if now, err := os.Readlink(path); err == nil && now == target {
		return false, nil
	}
	if err := os.Remove(path); err != nil {
		return false, err
	}
	return false, os.Symlink(target, path)
}
