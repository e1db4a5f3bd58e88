package batch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"strconv"
)

// maxPointerBytes is the size from which on a file cannot be a pointer.
const maxPointerBytes = 1024

var (
	pointerPrefix = []byte("version https://git-lfs.github.com/spec/")
	pointerText   = regexp.MustCompile(
		`\Aversion https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (0|[1-9][0-9]{0,17})\n\z`)
)

// Pointer names the content of a file that is stored outside the commit.
type Pointer struct {
	// OID is the SHA-256 of the content.
	OID [sha256.Size]byte
	// Size of the content in bytes.
	Size int64
}

// Hex returns the name of the object in the batch API: 64 hex digits.
func (p Pointer) Hex() string { return hex.EncodeToString(p.OID[:]) }

// Holds reports whether data is the content that the pointer names.
func (p Pointer) Holds(data []byte) bool {
	return int64(len(data)) == p.Size && sha256.Sum256(data) == p.OID
}

// errPointer is the error for a file that begins like a pointer but is not a valid pointer.
var errPointer = errors.New(
	"it does not consist of the lines version, oid sha256 and size: write it again with git lfs")

// IsPointer reports whether a file begins like a pointer, and is short enough for a pointer.
func IsPointer(content []byte) bool {
	return len(content) < maxPointerBytes && bytes.HasPrefix(content, pointerPrefix)
}

// ParsePointer reads a pointer of version 1 without extensions. The error contains no part of the content.
func ParsePointer(content []byte) (Pointer, error) {
	m := pointerText.FindSubmatch(content)
	if m == nil {
		return Pointer{}, errPointer
	}
	var p Pointer
	if _, err := hex.Decode(p.OID[:], m[1]); err != nil {
		return Pointer{}, errPointer
	}
	size, err := strconv.ParseInt(string(m[2]), 10, 64)
	if err != nil {
		return Pointer{}, errPointer
	}
	p.Size = size
	return p, nil
}
