package repository

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git"
)

// Committed returns what a version control system has of a file instead of the file itself, and whether it is
// executable there. The name is a path in the folder. The result ok is false if the file itself counts.
type Committed func(name string, info fs.FileInfo, file io.ReaderAt) (content []byte, executable, ok bool)

// OpenDir copies the files of a folder, such as a work tree, into the folder into, and returns them as a tree. The
// folder into must exist and be empty. OpenDir copies regular files only and leaves out .git at the top. OpenDir lists
// symbolic links, devices, nested repositories and invalid names as refused. The tree of a clean checkout has the same
// digest as the tree of the commit. The function committed may be nil.
//
// OpenDir must copy: in the original folder, a `local:` file of a Butane config could follow a symbolic link to another
// folder, or read the credentials in .git/config.
func OpenDir(ctx context.Context, dir, into string, committed Committed, l source.Limits) (source.Tree, error) {
	s, err := scanDir(ctx, dir, into, committed, l)
	if err != nil {
		return source.Tree{}, fmt.Errorf("reading the folder %s: %w", dir, err)
	}
	return source.Tree{
		Root: into, FS: os.DirFS(into),
		Digest: s.Digest(), Refused: s.Refused(), Entries: s.Entries(),
	}, nil
}

// ReadDir is OpenDir for a reader that stays shorter than its program: it keeps the files of a folder that is not large
// in memory, and puts into the other folder only those that the tree's Extract asks for.
func ReadDir(ctx context.Context, dir, into string, committed Committed, l source.Limits) (source.Tree, error) {
	files := git.NewFiles(into)
	s, err := scanInto(ctx, dir, into, files, committed, l)
	if err != nil {
		return source.Tree{}, fmt.Errorf("reading the folder %s: %w", dir, err)
	}
	return files.Into(source.Tree{Digest: s.Digest(), Refused: s.Refused(), Entries: s.Entries()}), nil
}

// digest returns the digest of a stored tree.
func digest(dir string) (string, error) {
	s, err := scanDir(context.Background(), dir, "", nil, source.Limits{
		Entries: 1 << 30, Bytes: 1 << 50,
		FileBytes: 1 << 40,
	})
	if err != nil {
		return "", err
	}
	if len(s.Refused()) > 0 {
		return "", fmt.Errorf("the entry %s was added: %s", s.Refused()[0].Path, s.Refused()[0].Why)
	}
	return s.Digest(), nil
}

// scan adds a folder's files to an inventory. If the parameter to is not nil, scan also copies the files to that
// folder.
type scan struct {
	ctx       context.Context
	from, to  *os.Root
	inventory *source.Inventory
	committed Committed  // nil if each file itself counts
	files     *git.Files // nil: the files are copied
}

func scanDir(ctx context.Context, dir, into string, committed Committed, l source.Limits) (*source.Inventory, error) {
	return scanInto(ctx, dir, into, nil, committed, l)
}

func scanInto(ctx context.Context, dir, into string, files *git.Files, committed Committed,
	l source.Limits,
) (*source.Inventory, error) {
	from, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	s := scan{ctx: ctx, from: from, inventory: source.NewInventory(l), committed: committed, files: files}
	if into != "" {
		if s.to, err = os.OpenRoot(into); err != nil {
			return nil, err
		}
		defer s.to.Close()
	}
	return s.inventory, s.folder("")
}

func (s *scan) folder(at string) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	entries, err := fs.ReadDir(s.from.FS(), path.Join(".", at))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if at == "" && e.Name() == ".git" && s.to != nil {
			continue
		}
		p, ok, err := s.inventory.Enter(at, e.Name())
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := s.entry(p, e.Type()); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) entry(p string, t fs.FileMode) error {
	switch {
	case t.IsDir():
		if _, err := s.from.Lstat(path.Join(p, ".git")); err == nil {
			s.inventory.Refuse(p, source.SubmoduleWhy)
			return nil
		}
		return s.folder(p)
	case t.IsRegular():
		return s.file(p)
	case t&fs.ModeSymlink != 0:
		text, err := s.from.Readlink(p)
		if err != nil {
			return err
		}
		s.inventory.RefuseTarget(p, "symbolic link", source.BlobOf(text))
	default:
		s.inventory.Refuse(p, "not a regular file")
	}
	return nil
}

func (s *scan) file(p string) error {
	f, err := s.from.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := s.inventory.Admit(p, info.Size()); err != nil {
		return err
	}
	executable := info.Mode()&0o100 != 0
	if s.committed != nil {
		if data, executable, ok := s.committed(p, info, f); ok {
			return s.add(p, executable, data)
		}
	}
	if info.Size() >= source.SumBytes {
		return s.large(p, executable, f)
	}
	data, err := io.ReadAll(io.LimitReader(f, info.Size()))
	if err != nil {
		return err
	}
	return s.add(p, executable, data)
}

func (s *scan) add(p string, executable bool, data []byte) error {
	if !s.inventory.Add(p, executable, data) || s.to == nil {
		return nil
	}
	if s.files != nil {
		return s.files.Add(p, modeOf(executable), data)
	}
	return s.write(p, executable, bytes.NewReader(data))
}

// large adds a file without reading it into memory.
func (s *scan) large(p string, executable bool, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	sum := sha256.New()
	if s.files != nil { // A file that is too large for memory is in the folder, and so are all others.
		if err := s.files.Spill(); err != nil {
			return err
		}
	}
	content := io.TeeReader(&contextReader{s.ctx, io.LimitReader(f, info.Size())}, sum)
	if s.to != nil {
		err = s.write(p, executable, content)
	} else {
		_, err = io.Copy(io.Discard, content)
	}
	if err != nil {
		return err
	}
	s.inventory.AddSum(p, executable, [sha256.Size]byte(sum.Sum(nil)))
	return nil
}

// contextReader is a reader that fails when its context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

// Read reads unless the context has ended.
func (r *contextReader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(b)
}

func modeOf(executable bool) fs.FileMode {
	if executable {
		return 0o755
	}
	return 0o644
}

func (s *scan) write(p string, executable bool, content io.Reader) error {
	if err := s.to.MkdirAll(path.Dir(p), 0o755); err != nil {
		return err
	}
	mode := modeOf(executable)
	f, err := s.to.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}
