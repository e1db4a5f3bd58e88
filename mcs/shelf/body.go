package shelf

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"

	"github.com/bunsen-os/bunsen/mcs"
)

// errToken says that a token cannot be put into a body. It does not show the token.
var errToken = errors.New("a body with room for a token needs one of 23 characters of a-z, 0-9 and a dot, any other needs none")

// Body is one complete answer. It is shared: nobody changes it. Where it has room for a token (Joins), Head and Tail are
// what is around that; of a zipped body, both are zipped.
type Body struct {
	mcs.Body
	// ETag changes with the config and its form, not with the token that is put in; with a token it is a weak one.
	ETag string
	// end is how the bytes after Tail follow from the token; nil where there are none.
	end *trailer
}

// Len is the length of the whole answer in bytes, with its token.
func (b Body) Len() int {
	n := b.Body.Len()
	if b.end != nil {
		n += trailerLength
	}
	return n
}

// WriteTo sends the whole answer with a machine's token put in, "" where the body does not join. It allocates nothing of
// the body's size. An error of the token's form comes before anything is written; any other is the writer's.
func (b Body) WriteTo(w io.Writer, token string) (int64, error) {
	if !b.takes(token) {
		return 0, errToken
	}
	n, err := w.Write(b.Head)
	sent := int64(n)
	if err != nil || !b.Joins() {
		return sent, err
	}
	if n, err = io.WriteString(w, token); err == nil {
		sent += int64(n)
		n, err = w.Write(b.Tail)
	}
	sent += int64(n)
	if err != nil || b.end == nil {
		return sent, err
	}
	n, err = w.Write(b.end.of(token))
	return sent + int64(n), err
}

// takes tells whether a token can stand in the body as it is.
func (b Body) takes(token string) bool {
	if !b.Joins() {
		return token == ""
	}
	if len(token) != mcs.TokenLength {
		return false
	}
	for _, c := range []byte(token) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}

// tagged gives a body its ETag: the digest of all that is sent but the token.
func tagged(b Body) Body {
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b.Head))))
	sum.Write(b.Head)
	sum.Write(b.Tail)
	b.ETag = `"` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	if b.Joins() {
		b.ETag = "W/" + b.ETag
	}
	return b
}
