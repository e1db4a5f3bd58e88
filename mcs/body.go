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

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// Input has the parts from which Compose composes the config of a new machine. Compose does not change the fields of an
// Input.
type Input struct {
	// Pool is the name of the machine's pool.
	Pool string
	// Rendered is the pool's rendered config.
	Rendered *mcfgv1.MachineConfig
	// Extra has the files that a server adds to each config. Extra may change while the config's name stays the same.
	Extra Extra
	// If Withhold is true, Compose leaves out the secrets of the config, and the machine gets them after it has joined.
	Withhold bool
	// Secrets are the resolved contents of the config's files that refer to secrets; nil leaves these files out.
	Secrets *Secrets
	// Content is how the machine reads files of the content store and of registries; nil if it cannot.
	Content *ContentAccess
}

// Secrets are the resolved contents of the files of a config that refer to secrets.
type Secrets struct {
	// Revision of the contents, see v1alpha1.SecretsRevision.
	Revision string
	// Contents by path.
	Contents map[string][]byte
}

// Extra has the files that a server adds to each config. The name of a config does not depend on Extra, so Extra may
// change while the name stays the same.
type Extra struct {
	// Files are added to the config unchanged and in this order. A file replaces any entry of the config at its path.
	Files []File
	// Join describes how a kubelet joins its cluster: with the bootstrap kubeconfig at KubeconfigPath. If Join is nil,
	// there is no such file.
	Join *Join
}

// File is a file on a new machine.
type File struct {
	// Path is the path of the file on the machine.
	Path string
	// Mode is the file's permission bits.
	Mode int
	// Contents are the file's contents.
	Contents []byte
}

// Join describes the bootstrap kubeconfig at KubeconfigPath, with which a kubelet joins its cluster. The server inserts
// a bootstrap token for each machine into the Body.
type Join struct {
	// Server is the URL of the API server for new machines.
	Server string
	// CA are the CA certificates of the API server, as PEM.
	CA []byte
}

// BootstrapTokenLength is the length of a bootstrap token, `abcdef.0123456789abcdef` (Kubernetes, bootstrap tokens).
const BootstrapTokenLength = 23

// Body is a complete Ignition config, or one with a placeholder for a bootstrap token between Head and Tail. The same
// input gives the same Body. All requests share one Body, so callers must not change it.
type Body struct {
	// Head is the config up to the placeholder, or the whole config.
	Head []byte
	// Tail is the config after the placeholder; nil if there is no placeholder.
	Tail []byte
	// Withheld lists the secrets that Compose left out, by path or name; nil if there are none.
	Withheld []string
}

// NeedsBootstrapToken reports whether the body has a placeholder for a bootstrap token of BootstrapTokenLength
// characters.
func (b Body) NeedsBootstrapToken() bool { return b.Tail != nil }

// Len returns the length of the body with its token.
func (b Body) Len() int {
	if !b.NeedsBootstrapToken() {
		return len(b.Head)
	}
	return len(b.Head) + BootstrapTokenLength + len(b.Tail)
}

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
