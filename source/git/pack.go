package git

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ObjectReader is a storage of git's objects.
type ObjectReader interface {
	// EncodedObject returns an object of a type, or ErrObjectNotFound.
	EncodedObject(plumbing.ObjectType, plumbing.Hash) (plumbing.EncodedObject, error)
	// EncodedObjectSize returns the size of an object in bytes.
	EncodedObjectSize(plumbing.Hash) (int64, error)
	// HasEncodedObject returns an error unless the object exists.
	HasEncodedObject(plumbing.Hash) error
}

// mostBase is the largest size of an object that is the base of deltas, because memory must contain the whole base.
const mostBase = 64 << 20

// unpacking limits the whole process to two packs that are unpacked at a time, which limits its memory.
var unpacking = make(chan struct{}, 2)

// unpack receives a pack into a temporary folder and indexes it there. It measures the pack first, because a few kilobytes can
// expand to many gigabytes. Objects are read into memory one at a time. The caller closes the result.
func unpack(ctx context.Context, r io.Reader, limit int64) (*packed, error) {
	dir, err := os.MkdirTemp("", "bunsen-pack-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder for the pack: %w", err)
	}
	p := &packed{dir: dir}
	if err := p.receive(ctx, r, limit); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// packed is a pack on disk and its index.
type packed struct {
	dir  string
	file billy.File
	pack *packfile.Packfile
}

func (p *packed) receive(ctx context.Context, r io.Reader, limit int64) error {
	folder := osfs.New(p.dir)
	file, err := folder.Create("pack")
	if err != nil {
		return fmt.Errorf("creating a file for the pack: %w", err)
	}
	p.file = file
	n, err := io.Copy(file, io.LimitReader(r, limit+1))
	if err != nil {
		return fmt.Errorf("receiving the pack: %w", err)
	}
	if n > limit {
		return tooLarge("the pack is larger than %d bytes", limit)
	}
	select {
	case unpacking <- struct{}{}:
		defer func() { <-unpacking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	if err := measure(&contextReader{ctx, file}, limit*inflation); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	var index idxfile.Writer
	parser, err := packfile.NewParser(packfile.NewScanner(&contextReader{ctx, file}), &index)
	if err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	if _, err := parser.Parse(); err != nil {
		return fmt.Errorf("unpacking the pack: %w", err)
	}
	found, err := index.Index()
	if err != nil {
		return fmt.Errorf("unpacking the pack: %w", err)
	}
	p.pack = packfile.NewPackfileWithCache(found, folder, file, cache.NewObjectLRU(16*cache.MiByte), 0)
	return nil
}

// Close removes the pack.
func (p *packed) Close() {
	if p.file != nil {
		_ = p.file.Close() // the file is removed next
	}
	_ = os.RemoveAll(p.dir) // the system removes temporary files anyway
}

// EncodedObject returns an object of a type, or ErrObjectNotFound.
func (p *packed) EncodedObject(t plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
	o, err := p.pack.Get(hash)
	if err != nil {
		return nil, err
	}
	if t != plumbing.AnyObject && o.Type() != t {
		return nil, plumbing.ErrObjectNotFound
	}
	return o, nil
}

// EncodedObjectSize returns the size of an object in bytes, without reading it.
func (p *packed) EncodedObjectSize(hash plumbing.Hash) (int64, error) {
	offset, err := p.pack.FindOffset(hash)
	if err != nil {
		return 0, err
	}
	return p.pack.GetSizeByOffset(offset)
}

// HasEncodedObject returns nil for an object that the pack has.
func (p *packed) HasEncodedObject(hash plumbing.Hash) error {
	_, err := p.pack.FindOffset(hash)
	return err
}

// measure returns an error if a pack unpacks to more than limit bytes. It keeps no object in memory.
func measure(r io.ReadSeeker, limit int64) error {
	s := packfile.NewScanner(r)
	_, count, err := s.Header()
	if err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	if count > maxObjects {
		return tooLarge("the pack holds %d objects, at most %d", count, maxObjects)
	}
	left := limit
	// A delta may name a base that comes after it. So large objects and deltas are counted in the whole pack.
	var large, deltas bool
	for range count {
		h, err := s.NextObjectHeader()
		if err != nil {
			return fmt.Errorf("reading the pack: %w", err)
		}
		left -= max(h.Length, 0)
		large = large || h.Length > mostBase
		if left < 0 {
			return tooLarge("the pack unpacks to more than %d bytes", limit)
		}
		var start prefix
		if _, _, err := s.NextObject(&start); err != nil {
			return fmt.Errorf("reading the pack: %w", err)
		}
		if h.Type.IsDelta() {
			size := start.target()
			if size > uint64(left) {
				return tooLarge("the pack unpacks to more than %d bytes", limit)
			}
			left -= int64(size)
			large, deltas = large || size > mostBase, true
		}
		if large && deltas {
			return tooLarge("the pack holds deltas, and objects of more than %d bytes", mostBase)
		}
	}
	return nil
}

func tooLarge(format string, args ...any) error {
	return fault.NewStalled(v1alpha1.ReasonInvalidTree,
		fmt.Errorf(format+": keep large files in a repository of their own", args...))
}

// prefix keeps the first bytes written to it and drops the rest.
type prefix struct {
	head [2 * binary.MaxVarintLen64]byte
	n    int
}

// Write keeps the bytes that fit.
func (p *prefix) Write(b []byte) (int, error) {
	p.n += copy(p.head[p.n:], b)
	return len(b), nil
}

// target returns the size that a delta declares for its result, which is its second number. The parser enforces that
// size. For an invalid delta, which the parser rejects, target returns 0.
func (p *prefix) target() uint64 {
	_, n := binary.Uvarint(p.head[:p.n])
	if n <= 0 {
		return 0
	}
	size, n := binary.Uvarint(p.head[n:p.n])
	if n <= 0 {
		return 0
	}
	return size
}

// contextReader is a reader that fails when its context ends, so that work on a pack stops at the deadline.
type contextReader struct {
	ctx context.Context
	io.ReadSeeker
}

// Read reads unless the context has ended.
func (w *contextReader) Read(b []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.ReadSeeker.Read(b)
}

// errTooLarge ends a session in which the server sends too much.
var errTooLarge = errors.New("the server sends more than the limit")

// limitedReader returns errTooLarge at a limit.
type limitedReader struct {
	io.ReadCloser
	left int64
}

// Read reads up to the limit.
func (c *limitedReader) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.left -= int64(n)
	if c.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
