package fetch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	internaldownload "github.com/bunsen-os/bunsen/internal/download"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Partial describes an unfinished download.
type Partial struct {
	// URL is the address of the bytes, and Validator what the server said about their version: an ETag or a date.
	URL, Validator string
	// Total is the size of the whole download; 0 if the server did not say.
	Total int64
	// Gzip is true if the bytes are compressed.
	Gzip bool
}

// Answer is the head of a server's answer.
type Answer = internaldownload.ArtifactAnswer

// headers returns the headers that request the rest of a download. A server that has another version by now sends the
// whole file. If the address has changed, only the hash shows whether the parts fit together.
func headers(p Partial, have int64, r machineconfig.Remote) map[string]string {
	h := map[string]string{"Accept-Encoding": "identity"}
	if have == 0 || p.Gzip != r.Gzip {
		return h
	}
	h["Range"] = fmt.Sprintf("bytes=%d-", have)
	if p.URL == r.URL && p.Validator != "" {
		h["If-Range"] = p.Validator
	}
	return h
}

// errComplete reports that the server has no bytes after those that the machine has.
var errComplete = errors.New("the download is complete")

// start returns at which byte the body of an answer begins, and the size of the whole download; 0 if it is unknown.
func start(a Answer, have int64) (from, total int64, err error) {
	switch {
	case a.Status == 200:
		total = max(a.Length, 0)
	case a.Status == 206 && have > 0:
		if from, total, err = parseRange(a.Range); err == nil && from != have {
			err = fmt.Errorf("the server sends bytes from %d on, and %d were requested", from, have)
		}
	case a.Status == 416 && have > 0:
		return have, have, errComplete
	default:
		err = fmt.Errorf("the server answers %d", a.Status)
	}
	if err == nil && total > host.MaxDownload {
		err = fmt.Errorf("it has %d bytes, and a remote file has at most %d", total, host.MaxDownload)
	}
	return from, total, err
}

// parseRange reads a header like `bytes 100-199/200`. The size is 0 if the header has * in its place.
func parseRange(text string) (from, total int64, err error) {
	unit, rest, _ := strings.Cut(text, " ")
	span, size, _ := strings.Cut(rest, "/")
	first, _, _ := strings.Cut(span, "-")
	if size == "*" {
		size = "0"
	}
	from, err = strconv.ParseInt(first, 10, 64)
	var bad error
	total, bad = strconv.ParseInt(size, 10, 64)
	if err != nil || bad != nil || unit != "bytes" || from < 0 || total < 0 || total > 0 && from > total {
		return 0, 0, errors.New("the server sends an invalid Content-Range")
	}
	return from, total, nil
}

// largestReserve limits the part of a disk that stays free.
const largestReserve = 1 << 30

// CheckSpace returns an error if a disk has too little space for further bytes: a tenth of the disk stays free, or
// largestReserve if that is less.
func CheckSpace(free, size, needed int64) error {
	reserve := min(size/10, largestReserve)
	if free-needed >= reserve {
		return nil
	}
	return fmt.Errorf("the disk of %s is full: %d MiB are free, %d MiB are needed, and %d MiB stay free: remove "+
		"files from the node", host.ContentDir, free>>20, needed>>20, reserve>>20)
}
