package shelf

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"

	"github.com/bunsen-os/bunsen/mcs"
)

// gzipHeader begins a member: deflate, no name, no time, of an unknown system (RFC 1952, section 2.3).
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// trailerLength is the length of a member's end: checksum and size.
const trailerLength = 8

// zip makes the gzip of a plain body: one member, as some clients read no second. Where there is room for a token, it
// stands in a stored block of its own between what is before and after it; only the checksum depends on it.
func zip(plain Body) Body {
	zipped := Body{Body: mcs.Body{Withheld: plain.Withheld}}
	head := bytes.NewBufferString(gzipHeader)
	if !plain.Joins() {
		deflate(head, plain.Head, true)
		end := trailer{head: crc32.ChecksumIEEE(plain.Head), size: uint32(len(plain.Head))}
		head.Write(end.of(""))
		zipped.Head = head.Bytes()
		return tagged(zipped)
	}
	deflate(head, plain.Head, false)
	head.Write(storedBlock(mcs.TokenLength))
	var tail bytes.Buffer
	deflate(&tail, plain.Tail, true)
	zipped.Head, zipped.Tail = head.Bytes(), tail.Bytes()
	zipped.end = &trailer{
		head: crc32.ChecksumIEEE(plain.Head),
		tail: crc32.ChecksumIEEE(plain.Tail),
		past: pastBytes(len(plain.Tail)),
		size: uint32(plain.Len()),
	}
	return tagged(zipped)
}

// deflate appends data compressed, ending the stream or at a byte's end within it.
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
		panic(err) // neither the level nor a buffer can be wrong
	}
}

// storedBlock begins a block of n bytes as they are that is not the last (RFC 1951, section 3.2.4), at a byte's start.
func storedBlock(n uint16) []byte {
	block := binary.LittleEndian.AppendUint16([]byte{0}, n)
	return binary.LittleEndian.AppendUint16(block, ^n)
}

// trailer makes the end of a member from the token in its midst.
type trailer struct {
	head, tail uint32 // checksums of what is before and after the token
	past       past   // moves a checksum past what is after the token
	size       uint32 // of all, uncompressed
}

// of is the end of the member that has this token.
func (t *trailer) of(token string) []byte {
	sum := crc32.Update(t.head, crc32.IEEETable, []byte(token))
	if token != "" {
		sum = t.past.move(sum) ^ t.tail
	}
	end := binary.LittleEndian.AppendUint32(make([]byte, 0, trailerLength), sum)
	return binary.LittleEndian.AppendUint32(end, t.size)
}

// past moves a checksum past a fixed number of bytes: the checksum of a+b is past(b).move(checksum of a), xor that of b.
// It is linear in the checksum's bits, so it has what becomes of each of these.
type past [32]uint32

func pastBytes(n int) past {
	var p past
	zeros := make([]byte, n)
	for bit := range p {
		// crc32 inverts its register before and after, which would not be linear.
		p[bit] = ^crc32.Update(^uint32(1<<bit), crc32.IEEETable, zeros)
	}
	return p
}

func (p *past) move(sum uint32) uint32 {
	var moved uint32
	for bit := range p {
		if sum&(1<<bit) != 0 {
			moved ^= p[bit]
		}
	}
	return moved
}
