package mcs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
)

// errToken is the error for a token that does not fit a body. The text does not contain the token.
var errToken = errors.New("the body needs a token of 23 characters of a-z, 0-9 and a dot, or none where it has no " +
	"placeholder")

// ServedBody is one complete response body. All requests share one Body, so callers must not change it. If the body
// needs a bootstrap token, Head and Tail are the parts around the token. In a gzip body, both parts are compressed.
type ServedBody struct {
	Body
	// ETag changes with the config and its format, but not with the token. A body that needs a token has a weak ETag.
	ETag string
	// trailer ends a gzip body with a token; nil for any other body.
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

// WriteTo sends the whole body with a machine's bootstrap token, or with "" if the body needs none. WriteTo does not
// copy the body. WriteTo returns an error about the token before it writes anything. Any other error is an error of the
// writer.
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

// fits reports whether the body can contain a token as it is, without escaping.
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

// withETag sets a body's ETag, which is the digest of the whole body except the token.
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
