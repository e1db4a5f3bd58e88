package files

import (
	"compress/flate"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/fetch"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Partial implements fetch.Partials. A download whose description is missing or damaged starts again.
func (s ContentStore) Partial(hash string) (p fetch.Partial, have int64, _ error) {
	f, have, err := OpenRead(s.root, at(hash+partSuffix))
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
		err = s.root.Write(at(hash+aboutSuffix), private, text)
	}
	if err != nil {
		return nil, err
	}
	return Append(s.root, at(hash+partSuffix))
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
	f, _, err := OpenRead(s.root, whole)
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
	f, _, err := OpenRead(s.root, at(hash+partSuffix))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	zip, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	return WriteFrom(s.root, at(hash+wholeSuffix), private, &bounded{
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
