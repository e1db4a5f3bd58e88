package objects

import (
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // git names its packs by SHA-1
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

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
