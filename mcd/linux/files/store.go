package files

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// ContentStore is the content store of a machine. Store implements host.ContentStore, fetch.Store and fetch.Partials.
//
//	NAME               content
//	<sha256>           complete contents with this digest
//	sha512-<hex>       a link to the digest of the same contents; it says which digest they have also without them
//	<hash>.part        the bytes of an unfinished download
//	<hash>.json        where they come from
//	<hash>.whole       contents that are being unpacked or copied
type ContentStore struct{ root *Root }

// NewContentStore returns the content store of a machine.
func NewContentStore(root *Root) ContentStore { return ContentStore{root} }

// The suffixes of names that are not complete contents.
const (
	partSuffix  = ".part"
	aboutSuffix = ".json"
	wholeSuffix = ".whole"
)

var (
	digestName = regexp.MustCompile(`^[0-9a-f]{64}$`)
	private    = host.Entry{Kind: host.File, Mode: 0o600}
)

func at(name string) string { return path.Join(host.ContentDir, name) }

// Size implements host.ContentStore.
func (s ContentStore) Size(d host.Digest) (bytes int64, has bool, err error) {
	if !digestName.MatchString(string(d)) {
		return 0, false, nil
	}
	kind, _, err := s.root.Lookup(at(string(d)))
	if err == nil && kind == host.File {
		bytes, err = Size(s.root, at(string(d)))
	}
	if IsAbsent(err) {
		return 0, false, nil
	}
	return bytes, kind == host.File, err
}

// Write implements host.ContentStore. Write removes damaged contents, so that the next attempt downloads them again.
func (s ContentStore) Write(p string, want host.Entry) error {
	f, _, err := OpenRead(s.root, at(string(want.Digest)))
	if err != nil {
		return fmt.Errorf("opening downloaded contents %s: %w", want.Digest.Short(), err)
	}
	defer f.Close() //nolint:errcheck // only read
	checked := &verifier{from: f, sum: sha256.New(), want: string(want.Digest)}
	err = WriteFrom(s.root, p, want, checked)
	if errors.Is(err, errDamaged) {
		return errors.Join(fmt.Errorf("downloaded contents %s: %w", want.Digest.Short(), err),
			s.root.Remove(at(string(want.Digest))))
	}
	return err
}

// errDamaged reports that contents do not match their digest.
var errDamaged = errors.New("they are damaged on the disk, and the daemon downloads them again")

// verifier reads contents, and fails at their end if they do not match their digest.
type verifier struct {
	from io.Reader
	sum  hash.Hash
	want string
}

// Read implements io.Reader.
func (v *verifier) Read(into []byte) (int, error) {
	n, err := v.from.Read(into)
	v.sum.Write(into[:n]) //nolint:errcheck,gosec // never fails
	if errors.Is(err, io.EOF) && hex.EncodeToString(v.sum.Sum(nil)) != v.want {
		err = errDamaged
	}
	return n, err
}

// Names implements fetch.Store.
func (s ContentStore) Names(dir string) ([]string, error) { return s.root.List(dir) }

// Digests implements fetch.Store.
func (s ContentStore) Digests() (complete, known map[string]host.Digest, _ error) {
	names, err := s.root.List(host.ContentDir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the downloaded contents: %w", err)
	}
	complete, known = map[string]host.Digest{}, map[string]host.Digest{}
	for _, name := range names {
		if digestName.MatchString(name) {
			complete["sha256-"+name], known["sha256-"+name] = host.Digest(name), host.Digest(name)
		}
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "sha512-") || path.Ext(name) != "" {
			continue
		}
		kind, target, err := s.root.Lookup(at(name))
		if err != nil || kind != host.Link || !digestName.MatchString(target) {
			continue
		}
		known[name] = host.Digest(target)
		if complete["sha256-"+target] != "" {
			complete[name] = host.Digest(target)
		}
	}
	return complete, known, nil
}

// Adopt implements fetch.Store.
func (s ContentStore) Adopt(p, want string) (bool, error) {
	kind, _, err := s.root.Lookup(p)
	if IsAbsent(err) || err == nil && kind != host.File || IsUnsafe(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f, size, err := OpenRead(s.root, p)
	if err != nil || size > host.MaxDownload {
		if err == nil {
			f.Close() //nolint:errcheck,gosec // only read
		}
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	sums, err := sumsOf(io.LimitReader(f, host.MaxDownload))
	if err != nil || !sums.match(want) {
		return false, err
	}
	free, total, err := s.Space()
	if err == nil { // The link costs no space, and drift needs it.
		err = errors.Join(s.link(want, sums), fetch.CheckSpace(free, total, size))
	}
	if err != nil {
		return false, err
	}
	again, _, err := OpenRead(s.root, p)
	if err != nil {
		return false, err
	}
	defer again.Close() //nolint:errcheck // only read
	copied := at(want + wholeSuffix)
	if err := WriteFrom(s.root, copied, private, &verifier{
		from: again, sum: sha256.New(),
		want: sums.sha256,
	}); err != nil {
		return false, err
	}
	return true, s.name(copied, want, sums)
}

// name gives verified contents their final name. The link comes first, so that contents are complete under both names
// at once.
func (s ContentStore) name(p, want string, sums sums) error {
	if err := s.link(want, sums); err != nil {
		return err
	}
	return Rename(s.root, p, sums.sha256)
}

// link records which digest the contents with a hash have.
func (s ContentStore) link(want string, sums sums) error {
	if !strings.HasPrefix(want, "sha512-") {
		return nil
	}
	return s.root.Link(at(want), host.Entry{Kind: host.Link, Target: sums.sha256})
}

// Retain implements fetch.Store.
func (s ContentStore) Retain(hashes map[string]bool) error {
	digests, _, err := s.Digests()
	if err != nil {
		return err
	}
	stay := map[string]bool{}
	for hash := range hashes {
		stay[hash], stay[string(digests[hash])] = true, true
		for _, suffix := range []string{partSuffix, aboutSuffix} {
			stay[hash+suffix] = true
		}
	}
	delete(stay, "")
	for hash, d := range digests { // The same contents may have links under other hashes.
		stay[hash] = stay[hash] || stay[string(d)]
	}
	names, err := s.root.List(host.ContentDir)
	for _, name := range names {
		if !stay[name] {
			err = errors.Join(err, s.root.Remove(at(name)))
		}
	}
	return err
}

// Space implements fetch.Partials.
func (s ContentStore) Space() (free, size int64, err error) {
	if err := s.root.MkdirAll(host.ContentDir); err != nil {
		return 0, 0, err
	}
	return Space(s.root, host.ContentDir)
}

// sums are the hashes of contents.
type sums struct{ sha256, sha512 string }

// match reports whether a hash in the form of configs is one of the sums.
func (s sums) match(hash string) bool {
	return hash == "sha256-"+s.sha256 || hash == "sha512-"+s.sha512
}

// sumsOf reads contents to their end.
func sumsOf(from io.Reader) (sums, error) {
	short, long := sha256.New(), sha512.New()
	if _, err := io.Copy(io.MultiWriter(short, long), from); err != nil {
		return sums{}, err
	}
	return sums{hex.EncodeToString(short.Sum(nil)), hex.EncodeToString(long.Sum(nil))}, nil
}
