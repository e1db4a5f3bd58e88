package git

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// objects is where a snapshot reads git's objects from.
type objects = storer.EncodedObjectStorer

// unpack reads a pack into memory. It is measured before it is unpacked: a few kilobytes of it can claim to be many
// gigabytes, by compression or by a delta that copies one piece over and over.
func unpack(ctx context.Context, r io.Reader, limit int64) (objects, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("receiving the pack: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, tooLarge("the pack is larger than %d bytes", limit)
	}
	if err := measure(&watched{ctx, bytes.NewReader(data)}, limit*inflation); err != nil {
		return nil, err
	}
	store := memory.NewStorage()
	p, err := packfile.NewParserWithStorage(packfile.NewScanner(&watched{ctx, bytes.NewReader(data)}), store)
	if err != nil {
		return nil, fmt.Errorf("reading the pack: %w", err)
	}
	if _, err := p.Parse(); err != nil {
		return nil, fmt.Errorf("unpacking the pack: %w", err)
	}
	return store, nil
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
	for range count {
		h, err := s.NextObjectHeader()
		if err != nil {
			return fmt.Errorf("reading the pack: %w", err)
		}
		left -= max(h.Length, 0)
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
