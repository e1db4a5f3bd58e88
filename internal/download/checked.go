package download

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
)

// checked is the body of a file that is at several places. If it breaks off or has another digest, the place is
// remembered, so that the next attempt tries the other places first. A part of a file has no digest.
type checked struct {
	io.ReadCloser
	from     string
	digest   string
	sum      hash.Hash
	failures *PlaceFailures
}

// newChecked returns the body of an answer that one of several places sends.
func newChecked(body io.ReadCloser, a RegistryAnswer, failures *PlaceFailures) *checked {
	c := &checked{ReadCloser: body, from: a.From, failures: failures}
	if a.Status == http.StatusOK {
		c.digest = a.Layer.Digest
		c.sum = sha256.New()
		if strings.HasPrefix(c.digest, "sha512:") {
			c.sum = sha512.New()
		}
	}
	return c
}

// Read implements io.Reader.
func (c *checked) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	if c.sum != nil {
		c.sum.Write(into[:n]) //nolint:errcheck,gosec // it never fails
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		if c.sum == nil || strings.HasSuffix(c.digest, fmt.Sprintf(":%x", c.sum.Sum(nil))) {
			return n, err
		}
		err = errors.New("it sends other bytes than the manifest names")
	}
	if err != nil {
		c.failures.Add(c.from)
		err = fmt.Errorf("%s: %w", c.from, err)
	}
	return n, err
}
