package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Cached is a directory that is made once for its content, a text that names all that it is made of, and kept between
// runs; it must not be written to. name is the first part of its name. build fills an empty directory, which is thrown
// away where it fails. Test binaries that want the same at once wait for the one that makes it.
func Cached(t testing.TB, name, content string, build func(dir string) error) string {
	t.Helper()
	cache, err := cacheDir()
	if err != nil {
		t.Fatalf("finding the lab's cache: %v", err)
	}
	sum := sha256.Sum256([]byte(content))
	dir := filepath.Join(cache, name+"-"+hex.EncodeToString(sum[:8]))
	lock, err := locked(dir+".lock", unix.LOCK_EX)
	if err != nil {
		t.Fatalf("waiting for whoever makes %s: %v", dir, err)
	}
	defer lock.Close() //nolint:errcheck // closing is unlocking
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := make1(dir, build); err != nil {
		t.Fatalf("making %s: %v", dir, err)
	}
	return dir
}

// make1 builds beside the place and renames, so that a half-made directory is never taken for a whole one.
func make1(dir string, build func(string) error) error {
	half := dir + ".half"
	if err := errors.Join(os.RemoveAll(half), os.Mkdir(half, 0o755)); err != nil {
		return err
	}
	if err := build(half); err != nil {
		return errors.Join(err, os.RemoveAll(half))
	}
	return os.Rename(half, dir)
}

// cacheDir is where what is kept between runs lives, and what running hosts write.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "bunsen-lab")
	return dir, os.MkdirAll(dir, 0o755)
}

// locked opens a file and locks it until it is closed, or its process ends; how is unix.LOCK_EX, or with LOCK_NB.
func locked(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return file, nil
}
