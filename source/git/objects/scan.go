package objects

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// ErrMissingBase is in the chain of the error about a delta whose base is neither in the pack nor in the folder.
var ErrMissingBase = errors.New("the base of a delta is missing")

// damagedError says what is wrong with the bytes of a pack. The text of a damagedError does not contain the details,
// because they differ each time.
type damagedError struct{ error }

// Error says that the pack is damaged.
func (damagedError) Error() string { return "the pack is damaged" }

// Unwrap returns what is wrong.
func (e damagedError) Unwrap() error { return e.error }

func damaged(err error) error { return damagedError{err} }

// maxInMemory is the size of the largest object, in bytes, for which scan resolves deltas. scan leaves a larger object
// out of the index, because Bunsen reads no file or folder of this size.
const maxInMemory = 128 << 20

// maxHeld is how many bytes of objects may be in memory at a time while scan resolves deltas of deltas.
const maxHeld = 320 << 20

// entry is one object of a pack.
type entry struct {
	offset int64
	size   int64               // unpacked size; for a delta, the size of the object that the delta results in
	kind   plumbing.ObjectType // the type of the entry in the pack
	made   plumbing.ObjectType // for a delta, the type of the object that the delta results in
	hash   plumbing.Hash
	crc    uint32
	known  bool // known is true if the hash of the object is known.

	content []byte // the unpacked bytes of the object or the delta; nil if they are not in memory
}

// scan reads a pack from a file, and finds the hash of each object.
type scan struct {
	ctx    context.Context
	file   *os.File
	limits Limits
	base   func(plumbing.Hash) (plumbing.ObjectType, []byte, error)
	keep   func(bytes int64) bool // keep reports whether a content of this size may stay in memory.

	scanner  *packfile.Scanner
	entries  []entry
	children map[int64][]int         // children maps the offset of a base to the entries that are deltas of the base.
	named    map[plumbing.Hash][]int // named maps the hash of a base to the entries that are deltas of the base.
	external []plumbing.Hash         // external has the bases that the folder has, in the order of their use.
}

// run finds the hashes of all objects. run measures the whole pack first, because a few kilobytes can unpack to many
// gigabytes.
func (s *scan) run() error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return damaged(err)
	}
	s.scanner = packfile.NewScanner(&contextReader{s.ctx, s.file})
	s.children, s.named = map[int64][]int{}, map[plumbing.Hash][]int{}
	if err := s.measure(); err != nil {
		return err
	}
	return s.resolve()
}

// measure reads the header of each object, and hashes those that are no deltas.
func (s *scan) measure() error {
	_, count, err := s.scanner.Header()
	if errors.Is(err, packfile.ErrEmptyPackfile) {
		return nil
	}
	if err != nil {
		return damaged(err)
	}
	if count > s.limits.Objects {
		return tooLarge("the pack holds %d objects, at most %d", count, s.limits.Objects)
	}
	left := s.limits.Unpacked
	for range count {
		used, err := s.next(left)
		if err != nil {
			return err
		}
		left -= used
	}
	return nil
}

// next reads one object, and returns its unpacked size. If the object is a delta, the size includes the delta itself.
func (s *scan) next(left int64) (int64, error) {
	h, err := s.scanner.NextObjectHeader()
	if err != nil {
		return 0, damaged(err)
	}
	// An object may be larger than its header declares: only the reader that unpacks it checks that.
	if h.Length < 0 || h.Length > left {
		return 0, tooLarge("the pack unpacks to more than %d bytes", s.limits.Unpacked)
	}
	e := entry{offset: h.Offset, size: h.Length, kind: h.Type}
	at := len(s.entries)
	used := h.Length
	if h.Type.IsDelta() {
		start, err := s.delta(h, &e)
		if err != nil {
			return 0, err
		}
		size := start.target()
		if size > uint64(left-used) {
			return 0, tooLarge("the pack unpacks to more than %d bytes", s.limits.Unpacked)
		}
		e.size = int64(size)
		used += e.size
		if h.Type == plumbing.OFSDeltaObject {
			s.children[h.OffsetReference] = append(s.children[h.OffsetReference], at)
		} else {
			s.named[h.Reference] = append(s.named[h.Reference], at)
		}
	} else if err := s.whole(h, &e); err != nil {
		return 0, err
	}
	s.entries = append(s.entries, e)
	return used, nil
}

// delta reads a delta, and returns its first bytes.
func (s *scan) delta(h *packfile.ObjectHeader, e *entry) (start prefix, err error) {
	if !s.keep(h.Length) {
		if _, e.crc, err = s.scanner.NextObject(&start); err != nil {
			return prefix{}, damaged(err)
		}
		return start, nil
	}
	if err := s.unpack(h, e); err != nil {
		return prefix{}, err
	}
	_, _ = start.Write(e.content) // A write to a hash never fails.
	return start, nil
}

// whole reads and hashes an object that is no delta.
func (s *scan) whole(h *packfile.ObjectHeader, e *entry) (err error) {
	if s.keep(h.Length) {
		if err := s.unpack(h, e); err != nil {
			return err
		}
		e.hash, e.known = plumbing.ComputeHash(h.Type, e.content), true
		return nil
	}
	hasher := plumbing.NewHasher(h.Type, h.Length)
	var n int64
	if n, e.crc, err = s.scanner.NextObject(hasher); err != nil {
		return damaged(err)
	}
	if n != h.Length {
		return damaged(errOtherSize)
	}
	e.hash, e.known = hasher.Sum(), true
	return nil
}

// errOtherSize is the error for an object whose content is shorter or longer than its header declares.
var errOtherSize = errors.New("an object has another size than its header declares")

// unpack reads the content of an object or a delta into memory.
func (s *scan) unpack(h *packfile.ObjectHeader, e *entry) (err error) {
	content := bytes.NewBuffer(make([]byte, 0, h.Length))
	n, crc, err := s.scanner.NextObject(content)
	switch {
	case err != nil:
		return damaged(err)
	case n != h.Length:
		return damaged(errOtherSize)
	}
	e.content, e.crc = content.Bytes(), crc
	return nil
}

// resolve finds the hashes of all deltas: first of deltas whose base is in the pack, then of deltas whose base is an
// object of the folder.
func (s *scan) resolve() error {
	for at := range s.entries {
		e := s.entries[at]
		if e.kind.IsDelta() || len(s.children[e.offset])+len(s.named[e.hash]) == 0 || e.size > maxInMemory {
			continue
		}
		content, err := s.read(e)
		if err != nil {
			return err
		}
		if err := s.deltasOf(base{at: at, kind: e.kind, content: content}, 0); err != nil {
			return err
		}
	}
	own := s.hashes()
	for hash, deltas := range s.named {
		if s.allKnown(deltas) || own[hash] {
			continue
		}
		kind, content, err := s.base(hash)
		if err != nil {
			return fmt.Errorf("unpacking the pack: %w", err)
		}
		s.external = append(s.external, hash)
		if err := s.resolveAll(deltas, base{at: -1, kind: kind, content: content}, int64(len(content))); err != nil {
			return err
		}
	}
	return s.checkComplete()
}

// hashes returns the hashes of the pack's own objects. hashes computes the hashes only if a delta names its base by a
// hash.
func (s *scan) hashes() map[plumbing.Hash]bool {
	if len(s.named) == 0 {
		return nil
	}
	own := make(map[plumbing.Hash]bool, len(s.entries))
	for _, e := range s.entries {
		if e.known {
			own[e.hash] = true
		}
	}
	return own
}

func (s *scan) allKnown(deltas []int) bool {
	for _, at := range deltas {
		if !s.entries[at].known {
			return false
		}
	}
	return true
}

// checkComplete returns an error for a delta that cannot be resolved, such as a delta that is its own base. The hashes
// of objects that are too large, and of their deltas, stay unknown.
func (s *scan) checkComplete() error {
	var large bool
	for _, e := range s.entries {
		large = large || e.size > maxInMemory
	}
	for _, e := range s.entries {
		if !e.known && !large {
			return fmt.Errorf("unpacking the pack: the delta at byte %d: %w", e.offset, ErrMissingBase)
		}
	}
	return nil
}

// base is an object in memory with the entry of the pack that it is; at is -1 for an object of the folder.
type base struct {
	at      int
	kind    plumbing.ObjectType
	content []byte
}

// deltasOf resolves the deltas of an object, and the deltas of these deltas. The parameter held is how many bytes of
// other objects are in memory.
func (s *scan) deltasOf(b base, held int64) error {
	const call = 4 << 10 // the memory that one call itself needs; counting it limits the length of a chain of deltas
	held += int64(len(b.content)) + call
	if held > maxHeld {
		return tooLarge("the deltas of the pack need more than %d bytes of memory", maxHeld)
	}
	e := s.entries[b.at]
	if err := s.resolveAll(s.children[e.offset], b, held); err != nil {
		return err
	}
	return s.resolveAll(s.named[e.hash], b, held)
}

func (s *scan) resolveAll(deltas []int, b base, held int64) error {
	for _, at := range deltas {
		e := &s.entries[at]
		if e.known || e.size > maxInMemory {
			continue
		}
		delta, err := s.read(*e)
		if err != nil {
			return err
		}
		content, err := packfile.PatchDelta(b.content, delta)
		if err != nil {
			return damaged(err)
		}
		e.hash, e.known = plumbing.ComputeHash(b.kind, content), true
		e.made, e.content = b.kind, nil
		if s.keep(int64(len(content))) {
			e.content = content
		}
		if err := s.deltasOf(base{at, b.kind, content}, held); err != nil {
			return err
		}
	}
	return nil
}

// read returns the unpacked bytes of an entry: an object, or a delta.
func (s *scan) read(e entry) ([]byte, error) {
	if e.content != nil {
		return e.content, nil
	}
	h, err := s.scanner.SeekObjectHeader(e.offset)
	if err != nil {
		return nil, damaged(err)
	}
	if h.Length > maxInMemory {
		return nil, tooLarge("the pack holds a delta of %d bytes", h.Length)
	}
	err = s.unpack(h, &e)
	return e.content, err
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

// target returns the size that a delta declares for its result, which is its second number. PatchDelta enforces that
// size. For an invalid delta, which PatchDelta rejects, target returns 0.
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

// complete adds the bases that the folder has to the end of the pack, so that the pack alone has all that its deltas
// need. complete returns the new checksum.
func (s *scan) complete() ([20]byte, error) {
	var sum [20]byte
	end, err := s.file.Seek(-sha1.Size, io.SeekEnd)
	if err != nil {
		return sum, err
	}
	if err := s.file.Truncate(end); err != nil {
		return sum, err
	}
	for _, hash := range s.external {
		kind, content, err := s.base(hash)
		if err != nil {
			return sum, err
		}
		crc := crc32.NewIEEE()
		n, err := writeObject(io.MultiWriter(s.file, crc), kind, content)
		if err != nil {
			return sum, err
		}
		s.entries = append(s.entries, entry{
			offset: end, kind: kind, hash: hash, crc: crc.Sum32(), known: true,
			size: int64(len(content)),
		})
		end += n
	}
	var count [4]byte
	binary.BigEndian.PutUint32(count[:], uint32(len(s.entries)))
	if _, err := s.file.WriteAt(count[:], 8); err != nil {
		return sum, err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return sum, err
	}
	all := sha1.New() //nolint:gosec // git names its packs by SHA-1
	if _, err := io.Copy(all, s.file); err != nil {
		return sum, err
	}
	all.Sum(sum[:0])
	_, err = s.file.Write(sum[:])
	return sum, err
}

// counter counts the bytes that it passes on.
type counter struct {
	io.Writer
	n int64
}

// Write passes bytes on.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += int64(n)
	return n, err
}

// writeObject writes an object in the format of a pack: a header with type and size, and then the compressed content.
// The first byte of the header has four bits of the size, each further byte seven bits.
func writeObject(w io.Writer, kind plumbing.ObjectType, content []byte) (int64, error) {
	c := &counter{Writer: w}
	size := uint64(len(content))
	head := []byte{byte(kind)<<4 | byte(size&0x0f)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	if _, err := c.Write(head); err != nil {
		return 0, err
	}
	z := zlib.NewWriter(c)
	_, err := z.Write(content)
	err = errors.Join(err, z.Close())
	return c.n, err
}
