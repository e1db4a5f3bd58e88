package mcs

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
)

// errToken does not contain the token.
var errToken = errors.New("the body needs a token of 23 characters of a-z, 0-9 and a dot, or none where it has no " +
	"placeholder")

// ServedBody is one complete response body. All requests share it, so do not change it. Head and Tail are the parts
// around the bootstrap token, if it needs one, compressed in a gzip body.
type ServedBody struct {
	Body
	// ETag changes with the config and its format, but not with the token, for which it is weak.
	ETag string
	// ends a gzip body with a token; nil for any other
	trailer *gzipTrailer
}

// Len returns the length of the whole body in bytes, with its token.
func (b ServedBody) Len() int {
	n := b.Body.Len()
	if b.trailer != nil {
		n += gzipTrailerLength
	}
	return n
}

// WriteTo sends the whole body with a machine's bootstrap token, or with "" if it needs none, without a copy. An error
// about the token comes before anything is written. Any other is an error of the writer.
func (b ServedBody) WriteTo(w io.Writer, token string) (int64, error) {
	if !b.fits(token) {
		return 0, errToken
	}
	parts := [][]byte{b.Head, []byte(token), b.Tail}
	if b.trailer != nil {
		parts = append(parts, b.trailer.bytes(token))
	}
	var sent int64
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		n, err := w.Write(part)
		sent += int64(n)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// fits reports whether a token needs no escaping.
func (b ServedBody) fits(token string) bool {
	if !b.NeedsBootstrapToken() {
		return token == ""
	}
	if len(token) != BootstrapTokenLength {
		return false
	}
	for _, c := range []byte(token) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}

// withETag sets the digest of the whole body except the token.
func withETag(b ServedBody) ServedBody {
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b.Head))))
	sum.Write(b.Head)
	sum.Write(b.Tail)
	b.ETag = `"` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	if b.NeedsBootstrapToken() {
		b.ETag = "W/" + b.ETag
	}
	return b
}

// RFC 1952, section 2.3. The header says: deflate, no name, no time, unknown system. The trailer has the checksum and
// the size.
const (
	gzipHeader        = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	gzipTrailerLength = 8
)

// compress creates the gzip body of a plain body.
//
// The token differs for each machine, so it is an uncompressed block between two parts that are compressed only once.
// One response costs the checksum of the part after the token: 8 µs for 200 KB. To compress 1 MB for each takes 8 ms,
// and a whole response, with its TLS handshake, 2 ms: 5,000 machines that boot at once would need five times the CPU.
// It is one gzip member, because some clients, such as curl, do not read a second one.
func compress(plain ServedBody) ServedBody {
	out := ServedBody{Body: Body{Withheld: plain.Withheld}}
	head := bytes.NewBufferString(gzipHeader)
	end := &gzipTrailer{head: crc32.ChecksumIEEE(plain.Head), tail: plain.Tail, size: uint32(plain.Len())}
	if !plain.NeedsBootstrapToken() {
		deflate(head, plain.Head, true)
		head.Write(end.bytes(""))
		out.Head = head.Bytes()
		return withETag(out)
	}
	deflate(head, plain.Head, false)
	head.Write(storedBlock(BootstrapTokenLength))
	var tail bytes.Buffer
	deflate(&tail, plain.Tail, true)
	out.Head, out.Tail, out.trailer = head.Bytes(), tail.Bytes(), end
	return withETag(out)
}

// deflate appends compressed data. The last part ends the stream, any other ends on a byte boundary.
func deflate(to *bytes.Buffer, data []byte, last bool) {
	w, err := flate.NewWriter(to, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil && last {
		err = w.Close()
	} else if err == nil {
		err = w.Flush()
	}
	if err != nil {
		panic(err) // No error is possible, because the level is valid, and a write to a buffer never fails.
	}
}

// storedBlock returns the header of an uncompressed block of n bytes, not the last one (RFC 1951, section 3.2.4).
func storedBlock(n uint16) []byte {
	block := binary.LittleEndian.AppendUint16([]byte{0}, n)
	return binary.LittleEndian.AppendUint16(block, ^n)
}

// gzipTrailer depends on the token in the body.
type gzipTrailer struct {
	head uint32 // head is the checksum of the plain part before the token.
	tail []byte // tail is the plain part after the token.
	size uint32 // size is the length of the plain body.
}

func (t *gzipTrailer) bytes(token string) []byte {
	sum := crc32.Update(t.head, crc32.IEEETable, []byte(token))
	sum = crc32.Update(sum, crc32.IEEETable, t.tail)
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, gzipTrailerLength), sum)
	return binary.LittleEndian.AppendUint32(out, t.size)
}
