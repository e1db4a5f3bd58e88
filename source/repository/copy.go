package repository

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing/fstest"
	"time"

	"github.com/bunsen-os/bunsen/source"
)

// Copy is a private copy of a folder's regular files, in which the unsaved texts of an editor stand in place of files.
// Butane reads the files that a document includes from a directory, so the texts cannot be kept in memory alone.
type Copy struct {
	from, to *os.Root
	// private is the directory of the copy, with the files in dir and the lock, which says that a process has it.
	private, dir string
	lock         *os.File
	files        map[string]copied
	// small has the contents of small files also in memory: to open a thousand files costs more than what an editor's
	// server then does with them. size is that of all.
	small fstest.MapFS
	size  int
}

// maxSmall limits the contents that a copy has in memory, in bytes.
const maxSmall = 32 << 20

// copyFS is the directory of a copy, and reads small files from memory.
type copyFS struct {
	fs.FS
	small fstest.MapFS
}

// ReadFile returns the contents of a file. The caller may change the returned bytes.
func (c copyFS) ReadFile(name string) ([]byte, error) {
	if f := c.small[name]; f != nil {
		return bytes.Clone(f.Data), nil
	}
	return fs.ReadFile(c.FS, name)
}

// Stat describes a file without opening it. Files in memory have no time.
func (c copyFS) Stat(name string) (fs.FileInfo, error) {
	if c.small[name] != nil {
		return c.small.Stat(name)
	}
	return fs.Stat(c.FS, name)
}

// ReadDir lists a directory in lexical order.
func (c copyFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(c.FS, name) }

// Names in the directory of temporary files, and in that of a copy.
const (
	copyPrefix = "bunsen-copy-"
	copyFiles  = "files"
	copyLock   = "lock"
)

// copied is a file of the copy.
type copied struct {
	// size, modified and mode are those of the original, to notice its changes; unsaved: it has a text of the editor.
	size       int64
	modified   time.Time
	mode       fs.FileMode
	unsaved    bool
	executable bool
	// sum is of the content. pointer: the content is a pointer of Git LFS, which is left out.
	sum     [sha256.Size]byte
	pointer bool
}

// NewCopy returns an empty copy of a folder, which it closes with itself. It removes copies that processes left when
// they were killed.
func NewCopy(from *os.Root) (*Copy, error) {
	removeAbandoned(os.TempDir())
	private, err := os.MkdirTemp("", copyPrefix)
	if err != nil {
		return nil, fmt.Errorf("making a directory for files: %w", err)
	}
	c := &Copy{
		from: from, private: private, dir: filepath.Join(private, copyFiles), files: map[string]copied{},
		small: fstest.MapFS{},
	}
	if c.lock, err = lockNew(filepath.Join(private, copyLock)); err == nil {
		if err = os.Mkdir(c.dir, 0o700); err == nil {
			c.to, err = os.OpenRoot(c.dir)
		}
	}
	if err != nil {
		if c.lock != nil {
			_ = c.lock.Close()
		}
		return nil, errors.Join(fmt.Errorf("making a directory for files: %w", err), os.RemoveAll(private))
	}
	return c, nil
}

// removeAbandoned removes the copies of this user that no process has.
func removeAbandoned(temporary string) {
	all, err := os.ReadDir(temporary)
	if err != nil {
		return
	}
	for _, e := range all {
		dir := filepath.Join(temporary, e.Name())
		if strings.HasPrefix(e.Name(), copyPrefix) && e.IsDir() && isAbandoned(dir, copyLock) {
			_ = os.RemoveAll(dir) // Whoever starts next tries it again.
		}
	}
}

// Close removes the copy.
func (c *Copy) Close() error {
	return errors.Join(c.from.Close(), c.to.Close(), c.lock.Close(), os.RemoveAll(c.private))
}

// update is one run of Tree.
type update struct {
	*Copy
	ctx       context.Context
	inventory *source.Inventory
	texts     map[string]string
	found     []string
	infos     map[string]fs.FileInfo
}

// Tree brings the copy up to date, and returns it as a tree: without texts, the same one as OpenDir without what git
// has of the files. It reads only files that changed. It follows no symbolic link and opens no device. The texts are by
// the path of their file. A later call changes the files of the tree.
func (c *Copy) Tree(ctx context.Context, texts map[string]string) (source.Tree, error) {
	u := update{
		Copy: c, ctx: ctx, inventory: source.NewInventory(source.Limits{}), texts: maps.Clone(texts),
		infos: map[string]fs.FileInfo{},
	}
	if err := u.folder(""); err != nil {
		return source.Tree{}, err
	}
	if err := u.addUnsaved(); err != nil {
		return source.Tree{}, err
	}
	found := make(map[string]bool, len(u.found))
	for _, name := range u.found {
		found[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		if !found[name] {
			c.remove(name)
		}
	}
	for _, name := range u.found {
		if err := u.file(name); err != nil {
			return source.Tree{}, err
		}
	}
	return source.Tree{
		Root: c.dir, FS: copyFS{os.DirFS(c.dir), maps.Clone(c.small)}, Digest: u.inventory.Digest(),
		Refused: u.inventory.Refused(), Entries: u.inventory.Entries(),
	}, nil
}

func (u *update) folder(at string) error {
	if u.ctx.Err() != nil {
		return u.ctx.Err()
	}
	entries, err := fs.ReadDir(u.from.FS(), path.Join(".", at))
	if err != nil {
		return fmt.Errorf("reading the folder: %w", err)
	}
	for _, e := range entries {
		if at == "" && e.Name() == ".git" {
			continue
		}
		p, ok, err := u.inventory.Enter(at, e.Name())
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		switch {
		case e.IsDir():
			if _, err := u.from.Lstat(path.Join(p, ".git")); err == nil {
				u.inventory.Refuse(p, source.SubmoduleWhy)
			} else if err := u.folder(p); err != nil {
				return err
			}
		case e.Type().IsRegular():
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // It was removed meanwhile.
			}
			if err != nil {
				return err
			}
			u.found, u.infos[p] = append(u.found, p), info
		case e.Type()&fs.ModeSymlink != 0:
			text, err := u.from.Readlink(p)
			if err != nil {
				return err
			}
			u.inventory.RefuseTarget(p, "symbolic link", source.BlobOf(text))
		default:
			u.inventory.Refuse(p, "not a regular file")
		}
	}
	return nil
}

// addUnsaved adds the texts of files that the editor has not saved yet. A text for a place where the folder has
// something else than a file, or that leads through a link, is left out.
func (u *update) addUnsaved() error {
	for _, name := range slices.Sorted(maps.Keys(u.texts)) {
		if u.infos[name] != nil {
			continue
		}
		if _, err := u.from.Lstat(name); !errors.Is(err, fs.ErrNotExist) || !u.plain(path.Dir(name)) {
			delete(u.texts, name)
			continue
		}
		p, ok, err := u.inventory.Enter(path.Dir(name), path.Base(name))
		if err != nil {
			return err
		}
		if !ok {
			delete(u.texts, name)
			continue
		}
		u.found = append(u.found, p)
	}
	return nil
}

// plain reports whether each directory above a path exists as a directory, or not at all.
func (u *update) plain(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if source.RefuseName(path.Base(dir)) != "" {
			return false
		}
		info, err := u.from.Lstat(dir)
		if err == nil && !info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// file copies a file, or a text of the editor, unless the copy is up to date.
func (u *update) file(name string) error {
	was, known := u.files[name]
	info := u.infos[name]
	if text, ok := u.texts[name]; ok {
		if err := u.inventory.Admit(name, int64(len(text))); err != nil {
			return err
		}
		now := copied{unsaved: true, sum: sha256.Sum256([]byte(text))}
		if info != nil {
			now.executable = info.Mode()&0o100 != 0
		}
		if known && was.sum == now.sum && was.executable == now.executable && !was.pointer {
			u.files[name] = now
			u.inventory.AddSum(name, now.executable, now.sum)
			return nil
		}
		return u.write(name, now, bytes.NewReader([]byte(text)))
	}
	if err := u.inventory.Admit(name, info.Size()); err != nil {
		return err
	}
	if known && !was.unsaved && !was.pointer && was.size == info.Size() && was.mode == info.Mode() &&
		was.modified.Equal(info.ModTime()) {
		u.inventory.AddSum(name, was.executable, was.sum)
		return nil
	}
	f, err := u.from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(opened, info) {
		u.inventory.Refuse(name, "file that changed while it was read")
		u.remove(name)
		return nil
	}
	return u.write(name, copied{
		size: info.Size(), modified: info.ModTime(), mode: info.Mode(), executable: info.Mode()&0o100 != 0,
	}, io.LimitReader(f, info.Size()))
}

// write replaces a file of the copy.
func (u *update) write(name string, now copied, content io.Reader) error {
	u.remove(name)
	var head bytes.Buffer
	if _, err := io.CopyN(&head, content, source.SumBytes); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	small := bytes.Clone(head.Bytes())
	if len(small) < source.SumBytes {
		now.sum = sha256.Sum256(head.Bytes())
		if !u.inventory.Add(name, now.executable, head.Bytes()) {
			now.pointer = true
			u.files[name] = now
			return nil
		}
	}
	if err := u.to.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if now.executable {
		mode = 0o700
	}
	f, err := u.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), io.MultiReader(&head, content))
	if err := errors.Join(err, f.Close()); err != nil {
		// The disk may be full: the next run must not find half a file.
		return fmt.Errorf("copying %s: %w", name, errors.Join(err, u.to.Remove(name)))
	}
	if now.sum == [sha256.Size]byte{} {
		now.sum = [sha256.Size]byte(sum.Sum(nil))
		u.inventory.AddSum(name, now.executable, now.sum)
	}
	u.files[name] = now
	if len(small) < source.SumBytes && u.size+len(small) <= maxSmall {
		u.small[name] = &fstest.MapFile{Data: small, Mode: mode}
		u.size += len(small)
	}
	return nil
}

// remove removes a file of the copy, and the directories that are empty without it.
func (c *Copy) remove(name string) {
	if _, known := c.files[name]; !known {
		return
	}
	delete(c.files, name)
	if f := c.small[name]; f != nil {
		delete(c.small, name)
		c.size -= len(f.Data)
	}
	for at := name; at != "."; at = path.Dir(at) {
		if c.to.Remove(at) != nil && at != name {
			return // It has other files.
		}
	}
}
