package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// shelfAge is for how long what nobody asks for stays on a shelf.
	shelfAge = 14 * 24 * time.Hour
	// shelfTouch is how exactly it is known when somebody asked: noting every look would be a write for each.
	shelfTouch = 24 * time.Hour
	// shelfStamp is the file whose time says when a shelf was last cleared.
	shelfStamp = "cleared"
	// shelvesFolder holds all shelves: the folder around it may be anybody's, and nothing else in it is looked at.
	shelvesFolder = "shelves"
	// halfPrefix begins the names of entries that are being written.
	halfPrefix = "half-"
)

// Shelf keeps results on disk by a digest of what they were made of, so that the next process need not make them again.
// It is safe to lose, to share between processes and to damage: its user checks what it gets. What is kept may hold
// secrets of a repository, so only its owner may read it.
type Shelf struct {
	dir string
	now time.Time
}

// OpenShelf opens the shelf of one version of a program, in the folder shelves of dir; another version has another one. Now
// is the time that its entries are said to be asked for. It clears away, at most once in a day, what nobody asked for in two
// weeks. A folder that somebody else owns or may write to is an error: what is on a shelf is believed.
func OpenShelf(dir, version string, now time.Time) (*Shelf, error) {
	dir = filepath.Join(dir, shelvesFolder)
	s := &Shelf{dir: filepath.Join(dir, name(version)[:16]), now: now}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the shelf: %w", err)
	}
	for _, d := range []string{dir, s.dir} {
		if err := private(d); err != nil {
			return nil, err
		}
	}
	if err := clearShelves(dir, now); err != nil {
		return nil, fmt.Errorf("clearing the shelf: %w", err)
	}
	return s, nil
}

// private tells of a folder that others could have put something into.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("looking at the shelf: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ok || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a folder that only this user may write to", dir)
	}
	return nil
}

// name of an entry's file: keys may be long, and hold anything.
func name(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Get returns what was put under a key. Whatever keeps it from being read counts as not there.
func (s *Shelf) Get(key string) ([]byte, bool) {
	file := filepath.Join(s.dir, name(key))
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, false
	}
	if info, err := os.Stat(file); err == nil && s.now.Sub(info.ModTime()) > shelfTouch {
		_ = os.Chtimes(file, s.now, s.now) // at worst it is made again one day
	}
	return data, true
}

// Put keeps a value. A full or read-only disk costs time later, and nothing else, so there is no error.
func (s *Shelf) Put(key string, value []byte) {
	half, err := os.CreateTemp(s.dir, halfPrefix+"*") // not synced: a power cut may lose it, and its user would notice
	if err != nil {
		return
	}
	_, err = half.Write(value)
	if err = errors.Join(err, half.Close(), os.Chtimes(half.Name(), s.now, s.now)); err == nil {
		err = os.Rename(half.Name(), filepath.Join(s.dir, name(key)))
	}
	if err != nil {
		_ = os.Remove(half.Name()) // else it goes when the shelf is cleared
	}
}

// clearShelves removes old entries of all versions' shelves.
func clearShelves(dir string, now time.Time) error {
	stamp := filepath.Join(dir, shelfStamp)
	if info, err := os.Stat(stamp); err == nil && now.Sub(info.ModTime()) < shelfTouch {
		return nil
	}
	if err := os.WriteFile(stamp, nil, 0o600); err != nil {
		return err
	}
	if err := os.Chtimes(stamp, now, now); err != nil {
		return err
	}
	shelves, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, shelf := range shelves {
		if !shelf.IsDir() || !isHex(shelf.Name(), 16) {
			continue
		}
		if err := clearShelf(filepath.Join(dir, shelf.Name()), now); err != nil {
			return err
		}
	}
	return nil
}

func clearShelf(dir string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // another process clears too
			continue
		}
		if err != nil {
			return err
		}
		ours := isHex(e.Name(), 2*sha256.Size) || strings.HasPrefix(e.Name(), halfPrefix)
		if ours && info.Mode().IsRegular() && now.Sub(info.ModTime()) > shelfAge {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// isHex tells of a name that this package made: so many lower-case hexadecimal digits.
func isHex(name string, digits int) bool {
	return len(name) == digits && strings.Trim(name, "0123456789abcdef") == ""
}
