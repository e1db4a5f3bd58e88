package objects

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

//nolint:gosec // git names its packs by SHA-1

// Limits bound the size of a pack.
type Limits struct {
	// Bytes is the most bytes of a pack, and Unpacked the most bytes of all its objects.
	Bytes, Unpacked int64
	// Objects is the most objects of a pack.
	Objects uint32
	// Hold waits until there is memory to unpack a pack, and returns a function that gives it back; nil: no limit.
	Hold func(ctx context.Context) (release func(), err error)
}

// UnpackMemory is about how many bytes of memory Add needs at most to unpack a pack.
const UnpackMemory = maxHeld + 64<<20

// The limits of a folder. Bunsen empties a folder with more packs or bytes, and the next fetch receives everything in
// one pack.
const (
	maxPacks = 40
	maxBytes = 512 << 20
)

// Folder is a directory with objects. Use it in one goroutine.
type Folder struct {
	dir     string
	temp    bool
	release func() // release lets the next goroutine use this folder of a Cache.
	open    []*packfile.Packfile
	recent  recentObjects
}

// Open opens a directory, and creates it if necessary. Open removes files that an interrupted Add left. If the
// directory has too many packs, Open removes all of them.
func Open(dir string) (*Folder, error) {
	f := &Folder{dir: dir}
	if err := f.prepare(); err != nil {
		return nil, fmt.Errorf("opening the directory of git's objects: %w", err)
	}
	return f, nil
}

// Temp creates a folder in a temporary directory, which Close removes.
func Temp() (*Folder, error) {
	dir, err := os.MkdirTemp("", "bunsen-pack-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for git's objects: %w", err)
	}
	f := &Folder{dir: dir, temp: true}
	if err := f.prepare(); err != nil {
		f.Close()
		return nil, fmt.Errorf("opening the directory of git's objects: %w", err)
	}
	return f, nil
}

func (f *Folder) prepare() error {
	if err := os.MkdirAll(f.packs(), 0o700); err != nil {
		return err
	}
	packs, size, err := cleanUp(f.packs())
	if err != nil {
		return err
	}
	if packs > maxPacks || size > maxBytes {
		return f.Empty()
	}
	return f.read()
}

// cleanUp removes packs without an index, and incomplete files, from a directory. cleanUp returns the number of packs
// and their bytes.
func cleanUp(dir string) (packs int, size int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	complete := map[string]bool{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".idx"); ok {
			complete[name] = true
		}
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".pack")
		if ok && complete[name] || strings.HasSuffix(e.Name(), ".idx") {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return 0, 0, err
		}
	}
	return len(complete), size, nil
}

func (f *Folder) packs() string { return filepath.Join(f.dir, "objects", "pack") }

// read opens all packs. read leaves out a pack whose index cannot be read: the next fetch receives its objects again.
func (f *Folder) read() error {
	f.closePacks()
	indexes, err := filepath.Glob(filepath.Join(f.packs(), "pack-*.idx"))
	if err != nil {
		return err
	}
	for _, path := range indexes {
		if err := f.openPack(strings.TrimSuffix(path, ".idx")); err != nil {
			return err
		}
	}
	return nil
}

// openPack opens a pack and its index.
func (f *Folder) openPack(name string) error {
	data, err := os.ReadFile(name + ".idx")
	if err != nil {
		return err
	}
	index := idxfile.NewMemoryIndex()
	if idxfile.NewDecoder(bytes.NewReader(data)).Decode(index) != nil {
		return nil
	}
	folder := osfs.New(f.packs())
	file, err := folder.Open(filepath.Base(name) + ".pack")
	if err != nil {
		return err
	}
	f.open = append(f.open, packfile.NewPackfileWithCache(index, folder, file, cache.NewObjectLRU(8*cache.MiByte), 0))
	return nil
}

func (f *Folder) closePacks() {
	f.recent.drop()
	for _, p := range f.open {
		_ = p.Close() // The pack was only read, so the error does not matter.
	}
	f.open = nil
}

// Empty removes all objects.
func (f *Folder) Empty() error {
	if err := os.RemoveAll(f.packs()); err != nil {
		return fmt.Errorf("removing git's objects: %w", err)
	}
	if err := os.MkdirAll(f.packs(), 0o700); err != nil {
		return fmt.Errorf("removing git's objects: %w", err)
	}
	f.closePacks()
	return nil
}

// Close closes the files, and removes the directory if Temp created it.
func (f *Folder) Close() {
	f.closePacks()
	if f.temp {
		_ = os.RemoveAll(f.dir) // the system removes temporary files anyway
	}
	if f.release != nil {
		f.release()
	}
}

// EncodedObject returns an object of a type, or plumbing.ErrObjectNotFound.
func (f *Folder) EncodedObject(t plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
	if c, ok := f.recent.byHash[hash]; ok {
		if t != plumbing.AnyObject && c.kind != t {
			return nil, plumbing.ErrObjectNotFound
		}
		return c.object(), nil
	}
	for _, p := range f.open {
		if _, err := p.FindOffset(hash); err != nil {
			continue
		}
		o, err := p.Get(hash)
		if err == nil && t != plumbing.AnyObject && o.Type() != t {
			return nil, plumbing.ErrObjectNotFound
		}
		return o, err
	}
	return nil, plumbing.ErrObjectNotFound
}

// EncodedObjectSize returns the size of an object in bytes.
func (f *Folder) EncodedObjectSize(hash plumbing.Hash) (int64, error) {
	// The size of a delta is in its content, so EncodedObjectSize reads the object. The pack keeps the object in memory
	// for the next call.
	o, err := f.EncodedObject(plumbing.AnyObject, hash)
	if err != nil {
		return 0, err
	}
	return o.Size(), nil
}

// HasEncodedObject returns nil for an object that the folder has.
func (f *Folder) HasEncodedObject(hash plumbing.Hash) error {
	for _, p := range f.open {
		if _, err := p.FindOffset(hash); err == nil {
			return nil
		}
	}
	return plumbing.ErrObjectNotFound
}

// Add receives a pack and adds its objects. Deltas in it may refer to objects of the folder. Add returns the number of
// received bytes. If the pack exceeds a limit, the error is a Stalled InvalidTree fault. If the folder does not have
// the base of a delta, ErrMissingBase is in the chain of the error.
func (f *Folder) Add(ctx context.Context, r io.Reader, l Limits) (received int64, err error) {
	file, err := os.CreateTemp(f.packs(), "receiving-")
	if err != nil {
		return 0, fmt.Errorf("creating a file for the pack: %w", err)
	}
	defer os.Remove(file.Name()) // This Remove has no effect after the file got its final name.
	defer file.Close()
	sum := &allButSum{of: sha1.New()} //nolint:gosec // git names its packs by SHA-1
	received, err = io.Copy(io.MultiWriter(file, sum), io.LimitReader(r, l.Bytes+1))
	switch {
	case err != nil:
		return received, fmt.Errorf("receiving the pack: %w", err)
	case received > l.Bytes:
		return received, tooLarge("the pack is larger than %d bytes", l.Bytes)
	}
	if l.Hold != nil {
		release, err := l.Hold(ctx)
		if err != nil {
			return received, err
		}
		defer release()
	}
	s := &scan{ctx: ctx, file: file, limits: l, base: f.base, keep: f.recent.hold}
	if err := s.run(); err != nil {
		return received, err
	}
	if !bytes.Equal(sum.of.Sum(nil), sum.held) {
		return received, damaged(errors.New("its checksum does not match"))
	}
	return received, f.keep(s, [20]byte(sum.held))
}

// base returns the content of an object of the folder that is the base of a delta.
func (f *Folder) base(hash plumbing.Hash) (plumbing.ObjectType, []byte, error) {
	o, err := f.EncodedObject(plumbing.AnyObject, hash)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %s", ErrMissingBase, hash)
	}
	if o.Size() > maxInMemory {
		return 0, nil, tooLarge("the pack has a delta of an object of %d bytes", o.Size())
	}
	r, err := o.Reader()
	if err != nil {
		return 0, nil, err
	}
	content, err := io.ReadAll(r)
	return o.Type(), content, errors.Join(err, r.Close())
}

// keep gives a pack and its index their final names. The index gets its name last: without its index, a pack counts as
// incomplete.
func (f *Folder) keep(s *scan, sum [20]byte) error {
	if len(s.entries) == 0 {
		return nil
	}
	if len(s.external) > 0 {
		var err error
		if sum, err = s.complete(); err != nil {
			return fmt.Errorf("adding the bases of deltas to the pack: %w", err)
		}
	}
	name := filepath.Join(f.packs(), "pack-"+hex.EncodeToString(sum[:]))
	index, err := s.index(sum)
	if err != nil {
		return fmt.Errorf("writing the index of the pack: %w", err)
	}
	temp := s.file.Name() + ".index"
	defer os.Remove(temp) // This Remove has no effect after the rename.
	if err := os.WriteFile(temp, index, 0o600); err != nil {
		return fmt.Errorf("writing the index of the pack: %w", err)
	}
	if err := errors.Join(os.Rename(s.file.Name(), name+".pack"), os.Rename(temp, name+".idx")); err != nil {
		return fmt.Errorf("storing the pack: %w", err)
	}
	if err := f.openPack(name); err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	f.recent.add(s.entries)
	return nil
}

// index encodes the index of the pack.
func (s *scan) index(sum [20]byte) ([]byte, error) {
	var w idxfile.Writer
	if err := w.OnHeader(uint32(len(s.entries))); err != nil {
		return nil, err
	}
	for _, e := range s.entries {
		if e.known {
			w.Add(e.hash, uint64(e.offset), e.crc)
		}
	}
	if err := w.OnFooter(sum); err != nil {
		return nil, err
	}
	found, err := w.Index()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_, err = idxfile.NewEncoder(&out).Encode(found)
	return out.Bytes(), err
}

// allButSum hashes all bytes but the last 20, which are the checksum of a pack.
type allButSum struct {
	of   hash.Hash
	held []byte
}

// Write hashes the bytes that are certainly not a part of the checksum, and keeps the last 20 bytes.
func (a *allButSum) Write(b []byte) (int, error) {
	a.held = append(a.held, b...)
	if n := len(a.held) - sha1.Size; n > 0 {
		_, _ = a.of.Write(a.held[:n]) // a hash never fails
		a.held = append(a.held[:0], a.held[n:]...)
	}
	return len(b), nil
}

func tooLarge(format string, args ...any) error {
	return fault.NewStalled(v1alpha1.ReasonInvalidTree,
		fmt.Errorf(format+": keep large files in a repository of their own", args...))
}

// Objects that Add received may stay in memory, because most of them are read soon and would be unpacked again.
// maxRecent is the largest size of all objects in memory, over all folders of the process. maxRecentObject is the
// largest size of one such object.
const (
	maxRecent       = 32 << 20
	maxRecentObject = 1 << 20
)

// recentBytes is the size of all recent objects that are in memory, in bytes.
var recentBytes atomic.Int64

// recentObject is an object in memory.
type recentObject struct {
	kind plumbing.ObjectType
	data []byte
}

func (c recentObject) object() plumbing.EncodedObject {
	o := &plumbing.MemoryObject{}
	o.SetType(c.kind)
	_, _ = o.Write(c.data) // a write to memory never fails
	return o
}

// recentObjects are objects that a folder received. The zero value is empty.
type recentObjects struct {
	byHash map[plumbing.Hash]recentObject
	held   int64 // the share of recentBytes that these objects use
}

// hold reports whether an object may stay in memory until drop.
func (r *recentObjects) hold(bytes int64) bool {
	const entry = 256 // about the bytes that the map needs for each object
	if bytes > maxRecentObject {
		return false
	}
	bytes += entry
	if recentBytes.Add(bytes) > maxRecent {
		recentBytes.Add(-bytes)
		return false
	}
	r.held += bytes
	return true
}

// add keeps the objects of a pack that are in memory.
func (r *recentObjects) add(entries []entry) {
	if r.byHash == nil {
		r.byHash = map[plumbing.Hash]recentObject{}
	}
	for _, e := range entries {
		switch {
		case !e.known || e.content == nil:
		case e.kind.IsDelta():
			r.byHash[e.hash] = recentObject{e.made, e.content}
		default:
			r.byHash[e.hash] = recentObject{e.kind, e.content}
		}
	}
}

func (r *recentObjects) drop() {
	recentBytes.Add(-r.held)
	*r = recentObjects{}
}
