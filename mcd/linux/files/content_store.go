package files

import (
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// ContentStore is the content store of a machine. It implements host.ContentStore, fetch.Store and fetch.Partials.
//
//	NAME               content
//	<sha256>           complete contents with this digest
//	sha512-<hex>       a link to the digest of the same contents; it says which digest they have also without them
//	<hash>.part        the bytes of an unfinished download
//	<hash>.json        where they come from
//	<hash>.whole       contents that are being unpacked or copied
type ContentStore struct{ root *Root }

// ContentStore returns the machine's content store.
func (r *Root) ContentStore() ContentStore { return ContentStore{r} }

// The suffixes of names that are not complete contents.
const (
	partSuffix  = ".part"
	aboutSuffix = ".json"
	wholeSuffix = ".whole"
)

var digestName = regexp.MustCompile(`^[0-9a-f]{64}$`)

func at(name string) string { return path.Join(host.ContentDir, name) }

// Size implements host.ContentStore.
func (s ContentStore) Size(d host.Digest) (bytes int64, has bool, err error) {
	if !digestName.MatchString(string(d)) {
		return 0, false, nil
	}
	kind, _, err := s.root.Lookup(at(string(d)))
	if err == nil && kind == host.File {
		bytes, err = s.root.Size(at(string(d)))
	}
	if IsAbsent(err) {
		return 0, false, nil
	}
	return bytes, kind == host.File, err
}

// Write implements host.ContentStore. Write removes damaged contents, so that the next attempt downloads them again.
func (s ContentStore) Write(p string, want host.Entry) error {
	f, _, err := s.root.OpenRead(at(string(want.Digest)))
	if err != nil {
		return fmt.Errorf("opening downloaded contents %s: %w", want.Digest.Short(), err)
	}
	defer f.Close() //nolint:errcheck // only read
	checked := &verifier{from: f, sum: sha256.New(), want: string(want.Digest)}
	err = s.root.WriteFrom(p, want, checked)
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
	f, size, err := s.root.OpenRead(p)
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
	again, _, err := s.root.OpenRead(p)
	if err != nil {
		return false, err
	}
	defer again.Close() //nolint:errcheck // only read
	copied := at(want + wholeSuffix)
	if err := s.root.WriteFrom(copied, privateFile, &verifier{
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
	return s.root.Rename(p, sums.sha256)
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

// Partial implements fetch.Partials. A download whose description is missing or damaged starts again.
func (s ContentStore) Partial(hash string) (p fetch.Partial, have int64, _ error) {
	f, have, err := s.root.OpenRead(at(hash + partSuffix))
	if IsAbsent(err) {
		return fetch.Partial{}, 0, nil
	}
	if err != nil {
		return p, 0, err
	}
	f.Close() //nolint:errcheck,gosec // only its size was needed
	text, err := s.root.Read(at(hash + aboutSuffix))
	if err != nil && !IsAbsent(err) {
		return p, 0, err
	}
	if err != nil || json.Unmarshal(text, &p) != nil {
		return fetch.Partial{}, 0, nil
	}
	return p, have, nil
}

// Append implements fetch.Partials. The description is durable before the first byte.
func (s ContentStore) Append(hash string, p fetch.Partial, from int64) (io.WriteCloser, error) {
	if err := s.root.MkdirAll(host.ContentDir); err != nil {
		return nil, err
	}
	if from == 0 {
		if err := s.root.Remove(at(hash + partSuffix)); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(p)
	if err == nil {
		err = s.root.Write(at(hash+aboutSuffix), privateFile, text)
	}
	if err != nil {
		return nil, err
	}
	return s.root.Append(at(hash + partSuffix))
}

// Commit implements fetch.Partials. For compressed contents, Commit unpacks them first.
func (s ContentStore) Commit(r machineconfig.Remote) error {
	whole := at(r.Hash + partSuffix)
	if r.Gzip {
		if err := s.unpack(r.Hash); isInvalid(err) {
			return errors.Join(fmt.Errorf("unpacking: %w", err), s.drop(r.Hash))
		} else if err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
		whole = at(r.Hash + wholeSuffix)
	}
	f, _, err := s.root.OpenRead(whole)
	if err != nil {
		return err
	}
	sums, err := sumsOf(f)
	f.Close() //nolint:errcheck,gosec // only read
	if err != nil {
		return err
	}
	if !sums.match(r.Hash) {
		got := "sha512-" + sums.sha512
		if strings.HasPrefix(r.Hash, "sha256-") {
			got = "sha256-" + sums.sha256
		}
		return errors.Join(&fetch.MismatchError{Want: r.Hash, Got: got}, s.drop(r.Hash))
	}
	if err := s.name(whole, r.Hash, sums); err != nil {
		return err
	}
	return s.drop(r.Hash)
}

// isInvalid reports whether compressed contents cannot be unpacked on any machine.
func isInvalid(err error) bool {
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.As(err, new(flate.CorruptInputError)) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, errTooLarge)
}

// errTooLarge reports contents that are larger than a remote file may be.
var errTooLarge = fmt.Errorf("it has more than %d bytes, and a remote file has at most so many", host.MaxDownload)

// drop removes what an unfinished download left.
func (s ContentStore) drop(hash string) (err error) {
	for _, suffix := range []string{wholeSuffix, partSuffix, aboutSuffix} {
		err = errors.Join(err, s.root.Remove(at(hash+suffix)))
	}
	return err
}

// unpack writes the decompressed bytes of a complete download. It keeps a part of the disk free.
func (s ContentStore) unpack(hash string) error {
	f, _, err := s.root.OpenRead(at(hash + partSuffix))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	zip, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	return s.root.WriteFrom(at(hash+wholeSuffix), privateFile, &bounded{
		from: zip, left: host.MaxDownload,
		space: s.Space,
	})
}

// bounded fails if contents are larger than a remote file may be, or fill the disk.
type bounded struct {
	from  io.Reader
	left  int64
	space func() (free, size int64, err error)
	since int64
}

// Read implements io.Reader.
func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.from.Read(into)
	b.left, b.since = b.left-int64(n), b.since+int64(n)
	if b.left < 0 {
		return 0, errTooLarge
	}
	if b.since >= spaceEvery {
		b.since = 0
		free, size, bad := b.space()
		if bad == nil {
			bad = fetch.CheckSpace(free, size, 0)
		}
		if bad != nil {
			return 0, bad
		}
	}
	return n, err
}

// spaceEvery is how many bytes are unpacked before the next look at the disk.
const spaceEvery = 16 << 20

// Space implements fetch.Partials.
func (s ContentStore) Space() (free, size int64, err error) {
	if err := s.root.MkdirAll(host.ContentDir); err != nil {
		return 0, 0, err
	}
	return s.root.Space(host.ContentDir)
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
