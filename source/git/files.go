package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"testing/fstest"

	"github.com/bunsen-os/bunsen/source"
)

// mostMemory limits the files that a Files has in memory, in bytes.
const mostMemory = 64 << 20

// Files are the regular files of a tree: in memory as long as they are few and small, and otherwise in a directory. To
// write thousands of small files costs more than everything that a program does with them afterwards.
type Files struct {
	dir    string
	memory fstest.MapFS // nil once the files are in dir
	bytes  int64

	mu        sync.Mutex
	extracted map[string]bool
}

// NewFiles returns no files yet. The directory must exist and be empty.
func NewFiles(dir string) *Files {
	return &Files{dir: dir, memory: fstest.MapFS{}, extracted: map[string]bool{}}
}

// Add adds a file with its mode. Its directories follow from its path. Add keeps the data.
func (f *Files) Add(name string, mode fs.FileMode, data []byte) error {
	if f.memory != nil && f.bytes+int64(len(data)) > mostMemory {
		if err := f.Spill(); err != nil {
			return err
		}
	}
	if f.memory == nil {
		return f.write(name, mode, data)
	}
	f.bytes += int64(len(data))
	f.memory[name] = &fstest.MapFile{Data: data, Mode: mode}
	return nil
}

// Spill writes the files into the directory, and all later ones too.
func (f *Files) Spill() error {
	for name, file := range f.memory {
		if err := f.write(name, file.Mode, file.Data); err != nil {
			return err
		}
	}
	f.memory = nil
	return nil
}

// Into sets the files of a tree.
func (f *Files) Into(tree source.Tree) source.Tree {
	tree.Root, tree.FS = f.dir, os.DirFS(f.dir)
	if f.memory != nil {
		tree.FS, tree.Extract = f.memory, f.extract
	}
	return tree
}

// extract writes one file into the directory, unless it is there.
func (f *Files) extract(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	file := f.memory[name]
	if file == nil || f.extracted[name] {
		return nil // The caller reads the directory, and says that there is no such file.
	}
	f.extracted[name] = true
	return f.write(name, file.Mode, file.Data)
}

// write creates a file that the directory does not have. A path cannot lead out of the directory.
func (f *Files) write(name string, mode fs.FileMode, data []byte) error {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	_, err = file.Write(data)
	// The umask removed bits of the mode at creation.
	if err = errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
