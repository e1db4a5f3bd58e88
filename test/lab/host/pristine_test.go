package host_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pristine is where the machine's /etc is kept as it was before the suite.
const pristine = "/var/tmp/pristine"

// restore makes /etc be as it was when this was called first: most of it was not changed, and is left alone.
func restore(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(pristine); errors.Is(err, fs.ErrNotExist) {
		sh(t, "cp -a /etc "+pristine)
	}
	is, was := walked(t, "/etc"), walked(t, pristine)
	var script strings.Builder
	for at, state := range is {
		if was[at] != state {
			script.WriteString("rm -rf '/etc" + at + "'\n")
		}
	}
	for at, state := range was {
		if is[at] != state {
			// Parents first does not matter: what is copied twice is copied as it was.
			script.WriteString("mkdir -p '" + filepath.Dir("/etc"+at) + "'; rm -rf '/etc" + at + "'; cp -a '" +
				pristine + at + "' '/etc" + at + "'\n")
		}
	}
	if script.Len() > 0 {
		sh(t, script.String())
	}
}

// state is what tells a path from what it was.
type state struct {
	mode     fs.FileMode
	size     int64
	changed  int64
	uid, gid uint32
	target   string
}

// walked are the paths below a directory; directories have no size and time, which change with what is in them.
func walked(t *testing.T, root string) map[string]state {
	t.Helper()
	found := map[string]state{}
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		s := state{mode: info.Mode(), size: info.Size(), changed: info.ModTime().UnixNano()}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			s.uid, s.gid = sys.Uid, sys.Gid
		}
		switch {
		case info.IsDir():
			s.size, s.changed = 0, 0
		case info.Mode()&fs.ModeSymlink != 0:
			if s.target, err = os.Readlink(at); err != nil {
				return err
			}
		}
		found[strings.TrimPrefix(at, root)] = s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
