package results

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limit is how many bytes a Store has on disk by default. A run may read all of them.
const Limit = 64 << 20

const (
	// The results are in so many files, so that a run rewrites few of them.
	shards = 64
	// before the results of a file: its format, and the digest of what follows
	magic = "bunsen results 1\n"
	// the precision of the time of the last use
	day = 24 * time.Hour
	// after which nobody misses a result, or the results of another program
	unused = 30
	// the beginning of the names of files that are not yet complete
	unfinished = "new-"
)

// Store is a directory with the results of earlier runs. Several goroutines and several processes may use one
// directory: a process that writes replaces what another wrote meanwhile to the same file, which loses only results.
type Store struct {
	dir   string
	limit int64
	today uint32

	mu     sync.Mutex
	loaded [shards]*shard
}

type key = [sha256.Size]byte

type shard struct {
	entries map[key]entry
	changed bool
}

type entry struct {
	value []byte
	// days since 1970
	used uint32
}

// Open returns the store in a directory, which it makes, for one version of a program: another one may return other
// results. The limit is in bytes. It is an error if others than the user can read or write the directory.
func Open(dir, version string, limit int64, now time.Time) (*Store, error) {
	sum := sha256.Sum256([]byte(version))
	s := &Store{
		dir: filepath.Join(dir, hex.EncodeToString(sum[:8])), limit: limit, today: uint32(max(0, now.Unix()) /
			int64(day/time.Second)),
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of stored results: %w", err)
	}
	for _, d := range []string{dir, s.dir} {
		info, err := os.Lstat(d)
		if err != nil {
			return nil, fmt.Errorf("reading the directory of stored results: %w", err)
		}
		if !info.IsDir() || !isPrivate(info) {
			return nil, fmt.Errorf("%s is no directory of this user alone: remove it", d)
		}
	}
	removeOld(dir, s.dir, now)
	return s, nil
}

// removeOld removes the results of other programs that nobody used for long, and what a killed process left.
func removeOld(dir, own string, now time.Time) {
	others, _ := os.ReadDir(dir)
	for _, e := range others {
		path := filepath.Join(dir, e.Name())
		if info, err := e.Info(); err == nil && path != own && now.Sub(info.ModTime()) > unused*day {
			_ = os.RemoveAll(path)
		}
	}
	left, _ := os.ReadDir(own)
	for _, e := range left {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), unfinished) && now.Sub(info.ModTime()) > time.Hour {
			_ = os.Remove(filepath.Join(own, e.Name()))
		}
	}
}

// Get returns the value that this or an earlier run put under a key, and whether there is one.
func (s *Store) Get(name string) ([]byte, bool) {
	k := sha256.Sum256([]byte(name))
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.shard(k)
	e, has := of.entries[k]
	if has && e.used != s.today {
		of.entries[k], of.changed = entry{e.value, s.today}, true
	}
	return e.value, has
}

// Put stores a value, which nobody changes afterwards. It is on disk after Close.
func (s *Store) Put(name string, value []byte) {
	k := sha256.Sum256([]byte(name))
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.shard(k)
	of.entries[k], of.changed = entry{value, s.today}, true
}

// Close writes what changed. Results that were not used for the longest time are left out beyond the limit.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i, of := range s.loaded {
		if of == nil || !of.changed {
			continue
		}
		if err := s.write(s.path(i), of.encode(s.limit/shards, s.today)); err != nil {
			errs = append(errs, fmt.Errorf("writing stored results: %w", err))
			continue
		}
		of.changed = false
	}
	return errors.Join(errs...)
}

func (s *Store) path(shard int) string { return filepath.Join(s.dir, fmt.Sprintf("%02x", shard)) }

// shard reads the file of a key at its first use. A file that is damaged, or not of this user alone, has nothing.
func (s *Store) shard(k key) *shard {
	i := int(k[0]) % shards
	if s.loaded[i] == nil {
		s.loaded[i] = &shard{entries: map[key]entry{}}
		if text, err := readPrivate(s.path(i), s.limit); err == nil {
			s.loaded[i].entries = decode(text, s.today)
		}
	}
	return s.loaded[i]
}

func readPrivate(file string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || !isPrivate(info) || info.Size() > limit {
		return nil, os.ErrInvalid
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// decode returns what an encoded shard has; nothing if a byte of it is wrong.
func decode(text []byte, today uint32) map[key]entry {
	out := map[key]entry{}
	rest, ok := bytes.CutPrefix(text, []byte(magic))
	if !ok || len(rest) < sha256.Size || sha256.Sum256(rest[sha256.Size:]) != key(rest[:sha256.Size]) {
		return out
	}
	const head = sha256.Size + 8
	for rest = rest[sha256.Size:]; len(rest) >= head; {
		used, size := binary.LittleEndian.Uint32(rest[sha256.Size:]), binary.LittleEndian.Uint32(rest[sha256.Size+4:])
		if uint64(size) > uint64(len(rest)-head) {
			return map[key]entry{}
		}
		end := head + int(size)
		out[key(rest[:sha256.Size])] = entry{rest[head:end:end], min(used, today)}
		rest = rest[end:]
	}
	return out
}

// encode drops the entries that nobody used for long, and beyond a limit those that were not used for the longest time.
func (of *shard) encode(limit int64, today uint32) []byte {
	keys := slices.SortedFunc(maps.Keys(of.entries), func(a, b key) int {
		if x, y := of.entries[a].used, of.entries[b].used; x != y {
			return int(y) - int(x)
		}
		return bytes.Compare(a[:], b[:])
	})
	body := make([]byte, 0, 64<<10)
	for _, k := range keys {
		e := of.entries[k]
		if int64(len(body)+len(e.value)+sha256.Size+8) > limit || today-e.used > unused {
			continue
		}
		body = append(body, k[:]...)
		body = binary.LittleEndian.AppendUint32(body, e.used)
		body = binary.LittleEndian.AppendUint32(body, uint32(len(e.value)))
		body = append(body, e.value...)
	}
	sum := sha256.Sum256(body)
	return slices.Concat([]byte(magic), sum[:], body)
}

// write replaces a file at once, so that another process reads the old or the new one.
func (s *Store) write(file string, text []byte) error {
	f, err := os.CreateTemp(s.dir, unfinished+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
