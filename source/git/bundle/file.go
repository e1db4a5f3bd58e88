package bundle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/wire"
)

// File is a bundle on this machine. Each method opens the file once, so it reads one state even if another process
// replaces the file.
type File struct {
	// Path of the file.
	Path string
	// Cache keeps the objects of earlier bundles of this path, so that a bundle may build on them. If Cache is nil,
	// each bundle must be complete. Key identifies the path in Cache.
	Cache *objects.Cache
	Key   string
	// Limits of the pack.
	Limits objects.Limits
}

// maxTagBytes is the largest annotated tag, and maxPeels the longest chain of annotated tags.
const (
	maxTagBytes = 1 << 20
	maxPeels    = 8
)

// Named reports whether a path names a bundle. A directory with the name of a bundle is a repository.
func Named(path string) bool {
	if !strings.HasSuffix(path, ".bundle") {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || !info.IsDir()
}

// Refs returns the refs whose names begin with one of the prefixes; without prefixes all. Refs reads the objects of a
// bundle only for tags. Errors are Retry faults, because another process may replace the file.
func (f File) Refs(ctx context.Context, prefixes []string) ([]source.Ref, error) {
	in, err := f.open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	refs := slices.DeleteFunc(in.header.Refs, func(r source.Ref) bool {
		return len(prefixes) > 0 && !slices.ContainsFunc(prefixes, func(p string) bool {
			return strings.HasPrefix(r.Name, p)
		})
	})
	if !slices.ContainsFunc(refs, isTag) {
		return refs, nil
	}
	folder, err := f.unpack(ctx, in)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	for i, r := range refs {
		if isTag(r) {
			refs[i].Peeled = peel(folder, plumbing.NewHash(r.Hash))
		}
	}
	return refs, nil
}

func isTag(r source.Ref) bool { return strings.HasPrefix(r.Name, "refs/tags/") }

// peel returns the object of an annotated tag; "" for any other object.
func peel(folder *objects.Folder, hash plumbing.Hash) string {
	peeled := ""
	for range maxPeels {
		o, err := folder.EncodedObject(plumbing.TagObject, hash)
		if err != nil || o.Size() > maxTagBytes {
			break
		}
		var tag object.Tag
		if tag.Decode(o) != nil {
			break
		}
		hash = tag.Target
		peeled = hash.String()
	}
	return peeled
}

// Objects returns a folder that has all objects of the bundle. The caller closes the folder. Errors are as those of
// Refs.
func (f File) Objects(ctx context.Context) (*objects.Folder, error) {
	in, err := f.open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return f.unpack(ctx, in)
}

// opened is a bundle whose header was read.
type opened struct {
	*os.File
	header wire.Bundle
	pack   *bufio.Reader
}

// open reads the header. open does not wait for the writer of a pipe.
func (f File) open() (*opened, error) {
	file, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.unreadable(err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		_ = file.Close() // the first error counts
		return nil, f.unreadable(err)
	}
	out := &opened{File: file, pack: bufio.NewReaderSize(file, 1<<16)}
	if out.header, err = wire.ReadBundle(out.pack); err != nil {
		_ = file.Close() // the first error counts
		return nil, f.invalid(fmt.Errorf("%w; copy it again under another name, and rename it", err))
	}
	return out, nil
}

// unpack opens the folder of objects and adds the objects of the bundle, unless the folder has them.
func (f File) unpack(ctx context.Context, in *opened) (folder *objects.Folder, err error) {
	if f.Cache == nil {
		folder, err = objects.Temp()
	} else {
		folder, err = f.Cache.Open(ctx, f.Key)
	}
	if err != nil {
		return nil, err
	}
	if err := f.fill(ctx, in, folder); err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

func (f File) fill(ctx context.Context, in *opened, folder *objects.Folder) error {
	missing := func(hash string) bool { return folder.HasEncodedObject(plumbing.NewHash(hash)) != nil }
	if !slices.ContainsFunc(in.header.Refs, func(r source.Ref) bool { return missing(r.Hash) }) {
		return nil // The folder gets a pack only as a whole, so it has the objects of all refs.
	}
	if i := slices.IndexFunc(in.header.Prerequisites, missing); i >= 0 {
		return f.invalid(fmt.Errorf("the bundle builds on commit %s, which the controller does not have: create it "+
			"with the whole history (git bundle create config.bundle main)", in.header.Prerequisites[i]))
	}
	_, err := folder.Add(ctx, in.pack, f.Limits)
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	case errors.As(err, &known):
		return f.invalid(known.Err)
	}
	return f.invalid(fmt.Errorf("the bundle is damaged or incomplete: copy it again under another name, and rename "+
		"it (%w)", err))
}

// HasHistory reports whether a folder has all ancestors of a commit, apart from ancestors of the applied commit. A
// bundle of a shallow clone does not have all ancestors.
func HasHistory(ctx context.Context, folder *objects.Folder, head, applied plumbing.Hash) (bool, error) {
	seen, next := map[plumbing.Hash]bool{applied: true}, []plumbing.Hash{head}
	for len(next) > 0 {
		hash := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[hash] {
			continue
		}
		seen[hash] = true
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		o, err := folder.EncodedObject(plumbing.CommitObject, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading commit %s: %w", hash, err)
		}
		var c object.Commit
		if err := c.Decode(o); err != nil {
			return false, fmt.Errorf("reading commit %s: %w", hash, err)
		}
		next = append(next, c.ParentHashes...)
	}
	return true, nil
}

// unreadable returns the error for a file that cannot be opened.
func (f File) unreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no file %s: copy the bundle there, or correct the url", f.Path)
	}
	return fault.NewRetry(v1alpha1.ReasonUnreachable, fmt.Errorf("opening the bundle: %w", err))
}

// invalid returns the error for a file that is no bundle, or for a bundle that cannot be read. The fault is Retry,
// because another process may replace the file.
func (File) invalid(err error) error {
	return fault.NewRetry(v1alpha1.ReasonInvalidTree, err)
}
