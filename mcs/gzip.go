package mcs

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
)

// The header and the length of the trailer of a gzip member (RFC 1952, section 2.3). The header says: deflate, no name,
// no time, unknown system. The trailer has the checksum and the size.
const (
	gzipHeader        = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	gzipTrailerLength = 8
)

// compress creates the gzip body of a plain body.
//
// A token differs for each machine, so the token is an uncompressed block between two parts that are compressed only
// once. The cost of one response is the checksum of the part after the token: 8 µs for 200 KB. To compress 1 MB for
// each response takes 8 ms, and a whole response, with its TLS handshake, 2 ms: 5,000 machines that boot at once would
// need five times the CPU. The body is one gzip member, because some clients, such as curl, do not read a second
// member.
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

// deflate appends compressed data. After the last part, deflate ends the stream. After any other part, deflate ends on
// a byte boundary.
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

// storedBlock returns the header of an uncompressed block of n bytes that is not the last block (RFC 1951, section
// 3.2.4).
func storedBlock(n uint16) []byte {
	block := binary.LittleEndian.AppendUint16([]byte{0}, n)
	return binary.LittleEndian.AppendUint16(block, ^n)
}

// gzipTrailer computes the trailer of a gzip body from the token in the body.
type gzipTrailer struct {
	head uint32 // head is the checksum of the plain part before the token.
	tail []byte // tail is the plain part after the token.
	size uint32 // size is the length of the plain body.
}

// bytes returns the trailer for a token.
func (t *gzipTrailer) bytes(token string) []byte {
	sum := crc32.Update(t.head, crc32.IEEETable, []byte(token))
	sum = crc32.Update(sum, crc32.IEEETable, t.tail)
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, gzipTrailerLength), sum)
	return binary.LittleEndian.AppendUint32(out, t.size)
}
