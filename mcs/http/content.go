package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/content"
)

// maxStreams limits the files of the content store and of registries at a time, so that most connections stay free for
// configs.
const maxStreams = 256

// Content has the files of the content store and of OCI registries.
type Content struct {
	// Open returns the file with a name of mcs.ContentName, and its size. The handler closes it. The error wraps
	// mcs.ErrContentUnavailable if it cannot be sent now. Nil: the server has no such files.
	Open func(ctx context.Context, name string) (io.ReadSeekCloser, int64, error)
	// Identity is what the server knows about itself now.
	Identity func() content.Identity
}

// contentHandler serves /node/content/<hash> to nodes, by the certificate of their kubelet, and /content/<hash> and
// /content/oci/<artifact> to new machines, whose config has a grant for the file.
type contentHandler struct {
	nodes      *Nodes // nodes is nil for new machines.
	content    Content
	streams    *Streams
	authorizer authorizer
	log        *requestLog
	now        func() time.Time
}

// ServeHTTP serves one request.
func (h *contentHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := h.now()
	a := response{from: ClientAddress(r.RemoteAddr), subject: subject{isContent: true}}
	a.content = h.name(r.URL.Path)
	w.Header().Set("Cache-Control", "no-store")
	if a.err = h.serve(w, r, &a, now); a.status == 0 {
		w.Header().Set(v1alpha1.ReasonHeader, httpErrorOf(a.err).reason)
		a.status = writeError(w, a.err)
	}
	h.log.add(r, &a, now)
}

// serve returns why it cannot serve a request, and leaves a.status 0 then.
func (h *contentHandler) serve(w http.ResponseWriter, r *http.Request, a *response, now time.Time) error {
	if err := h.authorizer.checkSource(a.from, now); err != nil {
		return err
	}
	w.Header().Set("Connection", "close")
	if err := h.authorize(r, a, now); err != nil {
		refused := new(mcs.NotForNodeError)
		if answer := httpErrorOf(err); (answer.status < http.StatusInternalServerError || errors.Is(err,
			content.ErrUnknownKey) || errors.As(err, &refused)) &&
			!h.authorizer.limits.Failure(a.from, now) {
			return fmt.Errorf("%w: %w", errTooManyFailures, err)
		}
		return err
	}
	end, ok := h.streams.Begin(a.from)
	if !ok {
		return errTooManyStreams
	}
	defer end()
	file, size, err := h.content.Open(r.Context(), a.content)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	a.status, a.sent, err = SendFile(w, r, a.content, TransferFile{Content: file, Size: size})
	if err == nil && a.status == http.StatusRequestedRangeNotSatisfiable {
		err = errNoRange
	}
	return err
}

// name returns the file at a path; empty for none. Nodes read registries themselves.
func (h *contentHandler) name(path string) string {
	if h.nodes == nil {
		return mcs.ContentName(strings.TrimPrefix(path, v1alpha1.ContentPath))
	}
	if hash := strings.TrimPrefix(path, v1alpha1.NodeContentPath); machineconfig.IsStoredHash(hash) {
		return hash
	}
	return ""
}

// authorize finds out who the client is, and whether it may read the file.
func (h *contentHandler) authorize(r *http.Request, a *response, now time.Time) error {
	if a.content == "" {
		return errNoContent
	}
	if h.nodes != nil {
		if err := h.nodes.identify(r, a); err != nil {
			return err
		}
		return h.nodes.Content(r.Context(), a.client.node, a.content)
	}
	grant, ok := strings.CutPrefix(r.Header.Get("Authorization"), v1alpha1.ContentGrantScheme)
	if !ok {
		grant = r.URL.Query().Get(v1alpha1.ContentGrantQuery)
	}
	pool, err := content.Check(h.content.Identity().Keys, grant, a.content, now)
	switch {
	case err == nil:
		a.pool, a.client.grant = pool, true
		return nil
	case errors.Is(err, content.ErrUnknownKey): // another replica may know it
		return unavailable("UnknownGrant", "the grant for the file cannot be verified", err)
	case errors.Is(err, content.ErrExpired):
		return &httpError{status: http.StatusForbidden, reason: "ExpiredGrant", message: err.Error()}
	}
	return &httpError{status: http.StatusUnauthorized, reason: "NoGrant", message: err.Error()}
}

const (
	// of an answer, which a client must take within timeout: a slow line has enough time for a large file, and a client
	// that reads nothing does not keep a connection
	part    = 512 << 10
	timeout = time.Minute
)

// TransferFile is an open file.
type TransferFile struct {
	// from the first byte on
	Content io.ReadSeeker
	Size    int64
}

// SendFile answers a GET or HEAD request with a file whose content is identified by tag, no longer than a line. It
// honours Range, If-Range and If-None-Match. A request for several ranges gets the whole file: no client of machines
// sends one, and an answer with many small parts costs much. After an error behind the beginning of the answer, the
// client did not get all of it.
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

func withOneRange(r *http.Request) *http.Request {
	if !strings.Contains(r.Header.Get("Range"), ",") {
		return r
	}
	clone := *r
	clone.Header = r.Header.Clone()
	clone.Header.Del("Range")
	return &clone
}

// writer gives the client more time for each part that it takes.
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

// Streams limits how many long answers run at a time. A source may have as many as are left for all others, so that
// slow readers of a few sources never use all. Its methods may be called concurrently.
type Streams struct {
	// of answers
	Total int

	mu      sync.Mutex
	running int
	sources map[netip.Prefix]int
}

// Begin counts an answer to a client, and reports whether it may run. The caller calls end after an answer that ran.
func (s *Streams) Begin(from netip.Addr) (end func(), ok bool) {
	source := SourceAddress(from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources[source] >= s.Total-s.running {
		return nil, false
	}
	if s.sources == nil {
		s.sources = map[netip.Prefix]int{}
	}
	s.sources[source]++
	s.running++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
		if s.sources[source]--; s.sources[source] == 0 {
			delete(s.sources, source)
		}
	}, true
}
