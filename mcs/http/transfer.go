package http

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// A client must take part bytes within timeout. So a slow line has enough time for a large file, and a client that
	// reads nothing does not keep a connection.
	part    = 512 << 10
	timeout = time.Minute
)

// TransferFile is an open file.
type TransferFile struct {
	// Content are its bytes, from the first one on.
	Content io.ReadSeeker
	// Size is how many there are.
	Size int64
}

// SendFile answers a GET or HEAD request with a file whose content is identified by tag, which is no longer than a
// line. The answer honours Range, If-Range and If-None-Match. A request for several ranges gets the whole file: no
// client of machines sends one, and an answer with many small parts costs much. An error after the beginning of the
// answer means that the client did not get all of it.
func SendFile(w http.ResponseWriter, r *http.Request, tag string, f TransferFile) (status int, sent int64, err error) {
	w.Header().Set("ETag", strconv.Quote(tag))
	w.Header().Set("Content-Type", "application/octet-stream")
	out := &writer{ResponseWriter: w, control: http.NewResponseController(w)}
	http.ServeContent(out, withOneRange(r), "", time.Time{}, f.Content)
	switch {
	case out.err != nil:
		err = fmt.Errorf("sending a file: %w", out.err)
	case out.status == http.StatusOK && r.Method == http.MethodGet && out.sent != f.Size:
		err = fmt.Errorf("sending a file: only %d of %d bytes could be read", out.sent, f.Size)
	}
	return out.status, out.sent, err
}

// withOneRange removes a request for several ranges.
func withOneRange(r *http.Request) *http.Request {
	if !strings.Contains(r.Header.Get("Range"), ",") {
		return r
	}
	clone := *r
	clone.Header = r.Header.Clone()
	clone.Header.Del("Range")
	return &clone
}

// writer records an answer, and gives the client more time for each part that it takes.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
	sent    int64
	until   int64 // the bytes after which the client gets more time
	err     error
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *writer) Write(bytes []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.sent >= w.until {
		w.until = w.sent + part
		if err := w.control.SetWriteDeadline(time.Now().Add(timeout)); err != nil &&
			!errors.Is(err, http.ErrNotSupported) {
			w.err = err
			return 0, err
		}
	}
	n, err := w.ResponseWriter.Write(bytes)
	w.sent += int64(n)
	if err != nil {
		w.err = err
	}
	return n, err
}
