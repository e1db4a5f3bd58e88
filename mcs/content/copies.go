package content

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcs"
)

// Stored opens a file of the content store by its hash. The error says where the file is missing.
type Stored func(ctx context.Context, hash string) (File, error)

// File is a file of the content store before it was verified.
type File struct {
	// in bytes
	Size int64
	Body io.ReadCloser
	// for contents with another hash or size
	Mismatch error
}

// errNoRegistry: why a server of a cluster has no file of the content store
var errNoRegistry = errors.New("the server has no --content-registry: set it to the controller's value")

// InRegistry returns the files that the controller keeps in a repository of a registry; none without one.
func InRegistry(repository machineconfig.Artifact, registries Registries) Stored {
	return func(ctx context.Context, hash string) (File, error) {
		if repository.Registry == "" {
			return File{}, fmt.Errorf("reading file %s: %w", hash, errNoRegistry)
		}
		at := repository
		at.Tag = machineconfig.ContentTag(hash)
		at, err := registries.Resolve(ctx, at)
		if err != nil {
			return File{}, fmt.Errorf("reading file %s from %s: %w", hash, repository, err)
		}
		layer, body, err := registries.File(ctx, at)
		if err != nil {
			return File{}, fmt.Errorf("reading file %s from %s: %w", hash, at, err)
		}
		if layer.Size < 0 || layer.Size > machineconfig.MaxContent {
			body.Close() //nolint:errcheck,gosec // only read
			return File{}, fmt.Errorf("reading file %s from %s: it cannot have %d bytes", hash, at, layer.Size)
		}
		return File{Size: layer.Size, Body: body, Mismatch: fmt.Errorf("reading file %s from %s: the registry sends "+
			"other bytes: delete the artifact, and the controller pushes it again", hash, at)}, nil
	}
}

const (
	// for one file
	readTimeout = 10 * time.Minute
	// for a file that is being read: Ignition waits 10 s for headers
	answerTimeout = 8 * time.Second
	// for the reason of a failure to answer further requests, so that a missing file does not cause endless reads
	retryAfter = 5 * time.Second
	// at a time from the content store and from each registry, so that a slow one delays only its own files; and from
	// all registries
	maxReads, maxRegistryReads = 2, 8
)

// tempPrefix begins the name of a file that is being written.
const tempPrefix = ".new-"

// Options of Copies. All are required.
type Options struct {
	Stored     Stored
	Registries Registries
	// of this server alone
	Dir string
	// of all copies, in bytes
	Max int64
	Log *slog.Logger
	Now func() time.Time
}

// Registries reads files of OCI registries.
type Registries interface {
	// Resolve returns an artifact with the digest that its tag names now.
	Resolve(ctx context.Context, a machineconfig.Artifact) (machineconfig.Artifact, error)
	// File requests the file of an artifact, for its size and digest. The caller closes the body, and verifies it.
	File(ctx context.Context, a machineconfig.Artifact) (download.Layer, io.ReadCloser, error)
}

// Copies are copies of files of the content store and of registries. Its methods may be called concurrently.
type Copies struct {
	Options
	// reads merges concurrent reads of one file, by key. turns limits them.
	reads singleflight.Group
	turns mcs.Turns
	// by key
	failures *lru.Cache[string, failure]

	mu sync.Mutex
	// the verified copies, by key
	known map[string]*entry
	// keys of running reads
	reading map[string]bool
	// for copies that are being written
	reserved int64
}

type entry struct {
	file string
	size int64
	used time.Time
}

type failure struct {
	at  time.Time
	err error
}

// NewCopies creates the directory, and removes what a crash left there.
func NewCopies(o Options) (*Copies, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory for files of the content store: %w", err)
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("reading the directory for files of the content store: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if err := os.Remove(filepath.Join(o.Dir, e.Name())); err != nil {
			return nil, fmt.Errorf("removing an incomplete file: %w", err)
		}
	}
	c := &Copies{Options: o, known: map[string]*entry{}, reading: map[string]bool{}}
	if c.failures, err = lru.New[string, failure](maxFailures); err != nil {
		return nil, fmt.Errorf("remembering failures: %w", err)
	}
	return c, nil
}

var errReading = errors.New("the server reads the file now: retry later")

type wanted struct {
	// the hash in the content store, or the address in a registry
	name string
	// zero for the content store
	artifact machineconfig.Artifact
}

func (w wanted) isArtifact() bool { return w.artifact.Digest != "" }

// key begins the name of the copy.
func (w wanted) key() string {
	if !w.isArtifact() {
		return w.name
	}
	return fmt.Sprintf("%s%x", artifactPrefix, sha256.Sum256([]byte(w.name)))
}

// artifactPrefix begins the names of copies from registries.
const artifactPrefix = "oci-"

// keyOf is empty if the name is not one of a copy.
func keyOf(file string) string {
	key, _, _ := strings.Cut(file, ".")
	if machineconfig.IsStoredHash(key) || strings.HasPrefix(key, artifactPrefix) {
		return key
	}
	return ""
}

// Open returns a file and its size: that of the content store with a hash, or the one in a registry with an address
// like oci://REGISTRY/NAME@sha256:HEX. The caller closes it. The error wraps mcs.ErrContentUnavailable if the file
// cannot be served now.
func (c *Copies) Open(ctx context.Context, name string) (*os.File, int64, error) {
	w := wanted{name: name}
	if !machineconfig.IsStoredHash(name) {
		var ok bool
		if w.artifact, ok = mcs.ParseArtifactName(name); !ok {
			return nil, 0, fmt.Errorf("reading file %q: %w", mcs.SafeName(name), mcs.ErrContentUnavailable)
		}
	}
	if f, size := c.openKnown(w.key()); f != nil {
		return f, size, nil
	}
	err := c.readInTime(ctx, w)
	if err == nil {
		if f, size := c.openKnown(w.key()); f != nil {
			return f, size, nil
		}
		err = errReading // it was removed at once, because others were needed
	}
	return nil, 0, fmt.Errorf("%w: %w", mcs.ErrContentUnavailable, err)
}

// readInTime starts a read, or waits for the running one, or returns the last failure.
func (c *Copies) readInTime(ctx context.Context, w wanted) error {
	if last, ok := c.failures.Get(w.key()); ok && c.Now().Sub(last.at) < retryAfter {
		return last.err
	}
	// A client that disconnects does not end it: others wait for the file.
	done := c.reads.DoChan(w.key(), func() (any, error) { return nil, c.read(context.WithoutCancel(ctx), w) })
	select {
	case r := <-done:
		return r.Err
	case <-time.After(answerTimeout):
		return errReading
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openKnown is nil without a verified copy.
func (c *Copies) openKnown(key string) (*os.File, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	if e == nil {
		return nil, 0
	}
	f, err := os.Open(c.path(e.file))
	if err == nil {
		if is, bad := f.Stat(); bad == nil && is.Size() == e.size {
			e.used = c.Now()
			return f, e.size
		}
		f.Close() //nolint:errcheck,gosec // only read
	}
	delete(c.known, key) // another process removed or truncated the copy
	return nil, 0
}

// read waits for its turn.
func (c *Copies) read(ctx context.Context, w wanted) error {
	limits := []mcs.Limit{{Key: w.artifact.Registry, Most: maxReads}}
	if w.isArtifact() {
		limits = append(limits, mcs.Limit{Key: allRegistries{}, Most: maxRegistryReads})
	}
	end, err := c.turns.Take(ctx, limits...)
	if err != nil {
		return err
	}
	defer end()
	c.setReading(w.key(), true)
	defer c.setReading(w.key(), false)
	is, err := c.copyInTime(ctx, w)
	if err != nil {
		c.failures.Add(w.key(), failure{c.Now(), err})
		c.Log.Error("a file cannot be served; machines and nodes that need it retry", "content", w.name, "error", err)
		return err
	}
	c.failures.Remove(w.key())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[w.key()] = &is
	return nil
}

// allRegistries is the key of a limit. The name of the content store, as of a registry, is empty.
type allRegistries struct{}

func (c *Copies) setReading(key string, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading[key] = is; !is {
		delete(c.reading, key)
	}
}

// copyInTime leaves a verified copy in the directory.
func (c *Copies) copyInTime(ctx context.Context, w wanted) (is entry, err error) {
	defer fault.Recover(&err) // The answers of one registry must not end the server.
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var file string
	var size int64
	if w.isArtifact() {
		file, size, err = c.copyArtifact(ctx, w)
	} else {
		file = w.name
		size, err = c.copyStored(ctx, w.name)
	}
	return entry{file, size, c.Now()}, err
}

// maxFailures: only files that configs name are read.
const maxFailures = 1024

// unusedLife is that of a copy that no config names: the grants of an earlier config are valid as long.
const unusedLife = 25 * time.Hour

// RemoveUnused removes the copies of files of the content store that no request used for a day, and whose hash is not
// named. Requests that read a removed one continue.
func (c *Copies) RemoveUnused(isNamed func(hash string) bool) error {
	files, err := os.ReadDir(c.Dir)
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.Dir, err)
	}
	var bad []error
	for _, f := range files {
		name := f.Name()
		info, err := f.Info()
		if err != nil || !machineconfig.IsStoredHash(name) || isNamed(name) {
			continue
		}
		bad = append(bad, c.removeBefore(name, info.ModTime()))
	}
	return errors.Join(bad...)
}

// removeBefore removes a copy that was last used too long ago. A process wrote it at used.
func (c *Copies) removeBefore(name string, used time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.known[name]; e != nil && e.used.After(used) {
		used = e.used
	}
	if c.reading[name] || c.Now().Sub(used) < unusedLife {
		return nil
	}
	delete(c.known, name)
	if err := os.Remove(c.path(name)); err != nil {
		return fmt.Errorf("removing a copy: %w", err)
	}
	return nil
}

func (c *Copies) path(file string) string { return filepath.Join(c.Dir, file) }

// copyStored leaves a verified copy of a file of the content store in the directory, and returns its size.
func (c *Copies) copyStored(ctx context.Context, name string) (int64, error) {
	if size, ok := verify(c.path(name), name); ok {
		return size, nil
	}
	f, err := c.Stored(ctx, name)
	if err != nil {
		return 0, err
	}
	defer f.Body.Close() //nolint:errcheck // only read
	return f.Size, c.write(name, f.Size, func(to io.Writer) error {
		sum := newSum(name)
		// One byte more shows a file that is too long.
		got, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(f.Body, f.Size+1))
		if err != nil {
			return fmt.Errorf("reading file %s: %w", name, err)
		}
		if got != f.Size || sum.String() != name {
			return f.Mismatch
		}
		return nil
	})
}

// maxArtifact is in bytes. The daemon has the same limit.
const maxArtifact = 1 << 30

// copyArtifact leaves a verified copy of a file in a registry in the directory. The digest of the artifact names a
// manifest, and that the digest of the file, which verifies the bytes and is in the name of the copy, so that the copy
// of an earlier process needs no registry.
func (c *Copies) copyArtifact(ctx context.Context, w wanted) (file string, size int64, err error) {
	if file, size, ok := c.earlier(w.key()); ok {
		return file, size, nil
	}
	layer, body, err := c.Registries.File(ctx, w.artifact)
	if err != nil {
		return "", 0, fmt.Errorf("reading %s: %w", w.name, err)
	}
	defer body.Close() //nolint:errcheck // only read
	if layer.Size < 0 || layer.Size > maxArtifact {
		return "", 0, fmt.Errorf("reading %s: its manifest says that it has %d bytes, and a file of a registry has "+
			"at most %d", w.name, layer.Size, maxArtifact)
	}
	hash := strings.Replace(layer.Digest, ":", "-", 1)
	file = w.key() + "." + hash
	err = c.write(file, layer.Size, func(to io.Writer) error {
		if err := copyBody(to, body, layer.Size, hash); err != nil {
			return fmt.Errorf("reading %s: %w", w.name, err)
		}
		return nil
	})
	return file, layer.Size, err
}

// copyBody verifies the size and the hash.
func copyBody(to io.Writer, body io.Reader, size int64, hash string) error {
	sum := newSum(hash)
	got, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(body, size+1))
	switch {
	case err != nil:
		return err
	case got > size:
		return fmt.Errorf("the registry sends more than the %d bytes that the manifest says", size)
	case got < size:
		return fmt.Errorf("the registry sends %d of %d bytes", got, size)
	case sum.String() != hash:
		return errors.New("the registry sends other bytes than the manifest names")
	}
	return nil
}

// earlier returns the verified copy that an earlier process left.
func (c *Copies) earlier(key string) (file string, size int64, ok bool) {
	files, err := os.ReadDir(c.Dir)
	if err != nil {
		return "", 0, false
	}
	for _, f := range files {
		if _, hash, _ := strings.Cut(f.Name(), "."); keyOf(f.Name()) == key && hash != "" {
			if size, ok := verify(c.path(f.Name()), hash); ok {
				return f.Name(), size, true
			}
		}
	}
	return "", 0, false
}

// verify reports whether an earlier process left a file with a hash, and returns its size. One with another hash is
// removed.
func verify(path, hash string) (int64, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close() //nolint:errcheck // only read
	sum := newSum(hash)
	size, err := io.Copy(sum, f)
	if err == nil && sum.String() == hash {
		return size, true
	}
	os.Remove(path) //nolint:errcheck,gosec // write replaces it
	return 0, false
}

// sum is a hash with a name.
type sum struct {
	hash.Hash
	function string
}

// newSum is for a hash in the form sha256-HEX or sha512-HEX.
func newSum(is string) sum {
	if strings.HasPrefix(is, "sha256-") {
		return sum{sha256.New(), "sha256-"}
	}
	return sum{sha512.New(), "sha512-"}
}

// String returns the hash of the bytes.
func (s sum) String() string { return s.function + hex.EncodeToString(s.Sum(nil)) }

// write gives a file its name only after fill has written and verified its bytes, and returned nil.
func (c *Copies) write(file string, size int64, fill func(io.Writer) error) (err error) {
	if err := c.makeRoom(size); err != nil {
		return err
	}
	defer c.release(size)
	f, err := os.CreateTemp(c.Dir, tempPrefix) // the mode is 0600
	if err != nil {
		return fmt.Errorf("writing a copy: %w", err)
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), c.path(file))
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	defer fault.Recover(&err) // before the file would get its name
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("writing a copy: %w", err)
	}
	return nil
}

// largestReserve limits the part of the disk that stays free.
const largestReserve = 1 << 30

// makeRoom removes the copies that were used the longest time ago, until there is room for another file, and reserves
// it.
func (c *Copies) makeRoom(size int64) error {
	if size > c.Max {
		return fmt.Errorf("the file has %d MiB, and the server's copies of files have at most %d MiB: set a larger "+
			"--content-cache", size>>20, c.Max>>20)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.removeOldest(size); err != nil {
		return err
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(c.Dir, &disk); err != nil {
		return fmt.Errorf("reading the free space of %s: %w", c.Dir, err)
	}
	free, all := int64(disk.Bavail)*disk.Bsize, int64(disk.Blocks)*disk.Bsize
	if reserve := min(all/10, largestReserve); free-size-c.reserved < reserve {
		return fmt.Errorf("the disk of %s is full: %d MiB are free, %d MiB are needed, and %d MiB stay free", c.Dir,
			free>>20, (size+c.reserved)>>20, reserve>>20)
	}
	c.reserved += size
	return nil
}

func (c *Copies) release(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved -= size
}

// removeOldest removes copies until all, with those that are being written and a file of a size, are within the limit.
// Requests that read a removed one continue. The caller holds mu.
func (c *Copies) removeOldest(size int64) error {
	files, err := os.ReadDir(c.Dir)
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.Dir, err)
	}
	sizes, sum := map[string]int64{}, size+c.reserved
	for _, f := range files {
		info, err := f.Info()
		key := keyOf(f.Name())
		if err != nil || !info.Mode().IsRegular() || key == "" {
			continue // an unfinished copy is part of the reserved size
		}
		sum += info.Size()
		if !c.reading[key] {
			sizes[f.Name()] = info.Size()
		}
	}
	for sum > c.Max && len(sizes) > 0 {
		file := oldestOf(sizes, c.known)
		if err := os.Remove(c.path(file)); err != nil {
			return fmt.Errorf("removing a copy: %w", err)
		}
		sum -= sizes[file]
		delete(sizes, file)
		delete(c.known, keyOf(file))
	}
	return nil
}

// oldestOf returns the copy that was used the longest time ago, or by no request of this process.
func oldestOf(sizes map[string]int64, known map[string]*entry) (oldest string) {
	for file := range sizes {
		a, b := known[keyOf(file)], known[keyOf(oldest)]
		switch {
		case oldest == "", a == nil && b != nil, a != nil && b != nil && a.used.Before(b.used):
			oldest = file
		case a == nil && b == nil && file < oldest:
			oldest = file
		}
	}
	return oldest
}
