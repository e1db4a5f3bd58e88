package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// magic begins each file: what it is, and the version of its form.
	magic = "bunsen-cache 1 "
	// suffix of a file that is whole; prefix of one that is being written.
	suffix, prefix = ".kept", ".new-"
)

// Cache keeps contents in files of one directory. All methods may be called at once, but for two that write the same name.
type Cache struct {
	dir string
	log *slog.Logger
	// step is called before each step of a write; tests crash there.
	step func(string)
}

// Open uses a directory, which it makes where it is not there, and removes what a crash left half written. Two processes
// must not use the same.
func Open(dir string, log *slog.Logger) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the cache's directory: %w", err)
	}
	c := &Cache{dir: dir, log: log, step: func(string) {}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the cache's directory: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("removing what a crash left in the cache: %w", err)
		}
	}
	return c, nil
}

// sayable is what a name may be: it is part of a file's name.
var sayable = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// file is where a name's content lies.
func (c *Cache) file(name string) (string, error) {
	if !sayable.MatchString(name) {
		return "", fmt.Errorf("the name %q cannot be one of the cache", name)
	}
	return filepath.Join(c.dir, name+suffix), nil
}

// frame is a file's text: magic, digest of name and contents, contents.
func frame(name string, contents []byte) []byte {
	return append([]byte(magic+digest(name, contents)+"\n"), contents...)
}

// digest covers the name too: a file that was renamed is not what its name says.
func digest(name string, contents []byte) string {
	sum := sha256.New()
	sum.Write([]byte(name + "\n"))
	sum.Write(contents)
	return hex.EncodeToString(sum.Sum(nil))
}

// Put keeps contents under a name, in place of what was there. Once it returns nil a loss of power keeps them; whenever the
// process ends before, the next one finds what was there before, or the new whole.
func (c *Cache) Put(name string, contents []byte) error {
	file, err := c.file(name)
	if err != nil {
		return err
	}
	text := frame(name, contents)
	if was, err := os.ReadFile(file); err == nil && bytes.Equal(was, text) {
		return nil // an unchanged config or token wears out no disk
	}
	if err := c.write(file, text); err != nil {
		return fmt.Errorf("keeping %s in the cache: %w", name, err)
	}
	return nil
}

func (c *Cache) write(file string, text []byte) error {
	c.step("create")
	f, err := os.CreateTemp(c.dir, prefix) // 0600
	if err != nil {
		return err
	}
	c.step("write")
	_, err = f.Write(text)
	c.step("flush")
	err = errors.Join(err, f.Sync())
	c.step("close")
	err = errors.Join(err, f.Close())
	if err == nil {
		c.step("rename")
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	c.step("flush the directory")
	return c.sync()
}

// sync makes the directory's entries outlast a loss of power.
func (c *Cache) sync() error {
	d, err := os.Open(c.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get returns what is kept under a name. What is damaged counts as absent, and is told.
func (c *Cache) Get(name string) ([]byte, bool) {
	file, err := c.file(name)
	if err != nil {
		return nil, false
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err == nil {
		var contents []byte
		if contents, err = unframe(name, text); err == nil {
			return contents, true
		}
	}
	c.log.Warn("ignoring a damaged file of the cache", "file", file, "error", err)
	return nil, false
}

// unframe is a file's contents, where they are what was put there.
func unframe(name string, text []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(text, []byte(magic))
	sum, contents, cut := bytes.Cut(rest, []byte("\n"))
	switch {
	case !ok || !cut:
		return nil, errors.New("it does not begin as such a file does")
	case string(sum) != digest(name, contents):
		return nil, errors.New("its contents are not what was written")
	}
	return contents, nil
}

// Remove forgets a name. One that is not there is no error.
func (c *Cache) Remove(name string) error {
	file, err := c.file(name)
	if err != nil {
		return err
	}
	err = os.Remove(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = c.sync()
	}
	if err != nil {
		return fmt.Errorf("removing %s from the cache: %w", name, err)
	}
	return nil
}

// Names lists what is kept, damaged or not, in order.
func (c *Cache) Names() []string {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		c.log.Warn("reading the cache's directory", "error", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && sayable.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}
