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

// objects is where a snapshot reads git's objects from.
type objects interface {
	EncodedObject(plumbing.ObjectType, plumbing.Hash) (plumbing.EncodedObject, error)
	EncodedObjectSize(plumbing.Hash) (int64, error)
	HasEncodedObject(plumbing.Hash) error
}

// mostBase is what an object may have in bytes on which others are deltas, since it is held in memory.
const mostBase = 64 << 20

// unpacking lets two packs be read at a time, whatever the number of repositories: memory is the process's.
var unpacking = make(chan struct{}, 2)

// unpack receives a pack into a folder of its own and indexes it there. It is measured first: a few kilobytes of it can claim
// to be many gigabytes, by compression or by a delta that copies one piece over and over. Of its objects only those that are
// asked for come into memory. Who has read them closes what it returns.
func unpack(ctx context.Context, r io.Reader, limit int64) (*packed, error) {
	dir, err := os.MkdirTemp("", "bunsen-pack-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the pack: %w", err)
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
		return fmt.Errorf("making a file for the pack: %w", err)
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
	if err := measure(&watched{ctx, file}, limit*inflation); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	var index idxfile.Writer
	parser, err := packfile.NewParser(packfile.NewScanner(&watched{ctx, file}), &index)
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
		_ = p.file.Close() // it is removed
	}
	_ = os.RemoveAll(p.dir) // below the system's folder for what is temporary
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

// EncodedObjectSize returns what an object has in bytes, without reading it.
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

// measure adds up what a pack unpacks to, without keeping any of it.
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
	// A delta may name a base that comes later, so that both are looked for in the whole pack.
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

// Write keeps what there is room for.
func (p *prefix) Write(b []byte) (int, error) {
	p.n += copy(p.head[p.n:], b)
	return len(b), nil
}

// target reads the size of the result that a delta declares, its second number; the parser holds the delta to it.
// What cannot be read is 0: the parser refuses it.
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

// watched is a reader that ends with its context, so that no work on a pack outlasts the deadline.
type watched struct {
	ctx context.Context
	io.ReadSeeker
}

// Read reads, unless the context has ended.
func (w *watched) Read(b []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.ReadSeeker.Read(b)
}

// errTooLarge ends a conversation in which the other side says too much.
var errTooLarge = errors.New("the server sends more than the limit")

// capped is a reader that fails, rather than ends, at a limit.
type capped struct {
	io.ReadCloser
	left int64
}

// Read reads up to the limit.
func (c *capped) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.left -= int64(n)
	if c.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
