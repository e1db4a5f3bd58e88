package repository

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// privateDir creates a directory that only this user may enter, or checks the existing one, and returns its path
// without symbolic links. If other users may read a directory of this user, privateDir removes their permissions.
//
// Each parent directory must belong to root or to this user, because the owner of a parent directory could replace the
// directory.
func privateDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	dir = filepath.Join(above, filepath.Base(dir))
	for at := above; ; at = filepath.Dir(at) {
		if err := ownedBy(at, 0, os.Geteuid()); err != nil {
			return "", err
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if err := ownedBy(dir, os.Geteuid()); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("other users may write to %s (mode %#o): remove it, or name a directory below it", dir,
			info.Mode().Perm())
	}
	if info.Mode().Perm()&0o077 != 0 {
		return dir, os.Chmod(dir, 0o700)
	}
	return dir, nil
}

// ownedBy returns an error unless a path is a directory of one of these users.
func ownedBy(path string, uids ...int) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok {
		return fmt.Errorf("%s is not a directory (%s)", path, info.Mode().Type())
	}
	for _, uid := range uids {
		if int(stat.Uid) == uid {
			return nil
		}
	}
	return fmt.Errorf("%s belongs to user %d, who could replace its content, and this process runs as user %d: name "+
		"another directory", path, stat.Uid, os.Geteuid())
}
