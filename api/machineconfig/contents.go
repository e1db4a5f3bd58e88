package machineconfig

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/vincent-petithory/dataurl"

	ign "github.com/bunsen-os/bunsen/api/ignition"
)

// MaxContents is the largest decoded size of one resource. The limit stops gzip bombs.
const MaxContents = 64 << 20

// ErrNotInline is returned for a resource whose source is not a data: URL, so that its contents are not in the config.
var ErrNotInline = errors.New("its contents are not in the config: only data: sources are supported here. Only the " +
	"contents of a file in storage.files may have an address, with a hash. Put them into the repository, and name " +
	"them with Butane's `local:`")

// Contents decodes the data: URL of a resource, and decompresses it if it is compressed with gzip. A resource without a
// source is empty. Contents does not compare the verification hash; Check does.
func Contents(r ign.Resource) ([]byte, error) { return contents(r, MaxContents) }

// contents is Contents for a resource that may decode to at most limit bytes.
func contents(r ign.Resource, limit int) ([]byte, error) {
	data, err := decompressed(r, limit)
	if err == nil && len(data) > limit {
		return nil, fmt.Errorf("its contents have %d bytes, more than the remaining %d", len(data), limit)
	}
	return data, err
}

func decompressed(r ign.Resource, limit int) ([]byte, error) {
	if r.Source == nil || *r.Source == "" {
		return nil, nil
	}
	data, err := decodeURL(*r.Source)
	if err != nil {
		return nil, err
	}
	if r.Compression == nil || *r.Compression == "" {
		return data, nil
	}
	if *r.Compression != "gzip" {
		return nil, fmt.Errorf("compression %q is unknown: use gzip, or remove it", *r.Compression)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("unpacking gzip: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(zip, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking gzip: %w", err)
	}
	if len(out) > limit {
		return nil, fmt.Errorf("unpacking gzip: it has more than %s", size(limit))
	}
	return out, nil
}

func size(bytes int) string {
	if mib := bytes >> 20; mib > 0 {
		return fmt.Sprintf("%d MiB", mib)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// decodeURL decodes a data: URL. decodeURL decodes the common forms itself, because Ignition's dataurl, which decodes
// the rare forms, is slow.
func decodeURL(source string) ([]byte, error) {
	rest, ok := strings.CutPrefix(source, "data:")
	if !ok {
		return nil, ErrNotInline
	}
	head, body, ok := strings.Cut(rest, ",")
	if ok && (head == "" || head == ";base64") {
		if data, err := decodeBody(body, head != ""); err == nil {
			return data, nil
		}
	}
	u, err := dataurl.DecodeString(source)
	if err != nil {
		return nil, fmt.Errorf("decoding data: URL: %w", err)
	}
	return u.Data, nil
}

func decodeBody(body string, isBase64 bool) ([]byte, error) {
	if isBase64 {
		return base64.StdEncoding.DecodeString(body)
	}
	plain, err := url.PathUnescape(body)
	return []byte(plain), err
}

// verify compares contents with the resource's hash, if it has one.
func verify(r ign.Resource, data []byte) error {
	function, want, err := r.Verification.HashParts()
	if err != nil {
		return hashError{err}
	}
	if function == "" {
		return nil
	}
	var got []byte
	switch function {
	case "sha256":
		sum := sha256.Sum256(data)
		got = sum[:]
	case "sha512":
		sum := sha512.Sum512(data)
		got = sum[:]
	default:
		return hashError{fmt.Errorf("verification hash %q is unknown: use sha256 or sha512", function)}
	}
	if subtle.ConstantTimeCompare([]byte(strings.ToLower(want)), []byte(hex.EncodeToString(got))) == 0 {
		return hashError{fmt.Errorf("verification hash does not match the contents: a machine would refuse to boot; "+
			"write %s-%s, or remove it", function, hex.EncodeToString(got))}
	}
	return nil
}
