package http

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/shelf"
)

// vary are the request's headers that an answer depends on. A cache between here and the machine must keep them apart,
// whatever the answer.
const vary = "Accept, Accept-Encoding, Authorization"

// config answers /config/<pool>; the pool is the path's only other element. The order is: bounds, admission, pool, version, body,
// a bootstrap token, the count of the use, the first byte. What comes later costs more, or cannot be taken back.
type config struct {
	source Source
	gate   gate
	due    due
	record *record
	now    func() time.Time
}

// answer is what became of one request.
type answer struct {
	pool   string
	known  bool // there is such a pool, and whoever asks may know
	from   netip.Addr
	who    grant
	offer  *shelf.Offer // nil where there was none
	form   shelf.Form
	body   shelf.Body
	status int
	sent   int64
	err    error
}

func (h *config) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := h.now()
	a := answer{pool: poolOf(r.URL.Path), from: remote(r.RemoteAddr)}
	defer h.recover(w, r, &a, now)
	w.Header().Set("Vary", vary)
	if a.err = h.serve(w, r, &a, now); a.status == 0 {
		a.status = refuse(w, a.err)
	}
	h.record.keep(r, &a, now)
}

// recover makes a panic an answer, or a broken one where it was begun, and keeps it in the records: net/http would tell
// nobody but the one who asks.
func (h *config) recover(w http.ResponseWriter, r *http.Request, a *answer, now time.Time) {
	p := recover()
	if p == nil {
		return
	}
	begun := a.status != 0
	a.err = &refusal{status: http.StatusInternalServerError, reason: "Panic", public: "the config cannot be served", cause: fmt.Errorf("a panic: %v", p)}
	if !begun {
		a.status = refuse(w, a.err)
	}
	h.record.keep(r, a, now)
	if begun {
		panic(http.ErrAbortHandler)
	}
}

// serve answers a request, or returns why not with a.status still 0.
func (h *config) serve(w http.ResponseWriter, r *http.Request, a *answer, now time.Time) error {
	err := h.gate.bound(a.from, now)
	if err != nil {
		return err
	}
	if !h.source.Ready() {
		return mcs.ErrNotSynced // and tokens may be unknown for the same reason
	}
	complete := h.source.Complete()
	a.who, err = h.gate.admit(r, a.pool, a.from, now)
	if a.who.certificate != "" {
		w.Header().Set("Connection", "close") // what was verified at its beginning may be over when it asks again
	}
	if err != nil && !complete {
		err = early(err)
	}
	if err != nil {
		return err
	}
	if err = h.choose(r, a); err != nil {
		return err
	}
	if matches(r.Header.Get("If-None-Match"), a.body.ETag) {
		a.status = http.StatusNotModified
		describe(w.Header(), a)
		w.WriteHeader(a.status)
		return nil
	}
	join := ""
	if r.Method == http.MethodGet {
		if join, err = h.due.settle(r.Context(), a, now); err != nil {
			return err
		}
	}
	a.status = http.StatusOK
	describe(w.Header(), a)
	if r.Method == http.MethodHead {
		w.WriteHeader(a.status)
		return nil
	}
	return send(w, a, join)
}

// choose finds the body that is asked for.
func (h *config) choose(r *http.Request, a *answer) error {
	if a.pool == "" {
		return fmt.Errorf("the path names no pool, as /config/worker would: %w", mcs.ErrUnknownPool)
	}
	var err error
	a.offer, err = h.source.Offer(a.pool)
	a.known = !errors.Is(err, mcs.ErrUnknownPool)
	if err != nil {
		return fmt.Errorf("serving pool %q: %w", loggable(a.pool), err)
	}
	if a.form.Version, err = mcs.Negotiate(list(r, "Accept")); err != nil {
		return err
	}
	a.form.Zipped = mcs.Encodings(list(r, "Accept-Encoding"))
	a.form.Withhold = a.who.node == "" && !h.gate.access.SecretsToAll
	a.body, err = a.offer.Body(a.form)
	if err == nil && len(a.body.Head) == 0 {
		err = errors.New("the config is empty: its making was not finished")
	}
	return err
}

// describe sets the headers of an answer that is the config, or says that it is as it was. What has no secrets may be kept by
// the one who got it, if it asks again each time; anything else by nobody.
func describe(header http.Header, a *answer) {
	keep := "no-store"
	if a.form.Withhold && !a.body.Joins() {
		keep = "private, no-cache"
	}
	header.Set("ETag", a.body.ETag)
	header.Set("Cache-Control", keep)
	if a.status == http.StatusNotModified {
		return
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(a.body.Len()))
	if a.form.Zipped {
		header.Set("Content-Encoding", "gzip")
	}
}

// send writes the body, each part at once, and waits until the connection has taken all of it.
func send(w http.ResponseWriter, a *answer, join string) error {
	var err error
	if a.sent, err = a.body.WriteTo(w, join); err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil {
		return fmt.Errorf("sending the config: %w", err)
	}
	return nil
}

// list is a header that may come in several lines.
func list(r *http.Request, name string) string { return strings.Join(r.Header.Values(name), ",") }

// poolOf is the pool of a path /config/<pool>, or "". A path with another element is refused: a proxy that allows paths by
// their beginning would not see the pool at the end.
func poolOf(urlPath string) string {
	name := strings.TrimPrefix(urlPath, "/config/")
	if strings.Contains(name, "/") {
		return ""
	}
	return name
}

// matches tells whether an If-None-Match header covers an ETag, by the weak comparison (RFC 9110, section 13.1.2).
func matches(header, etag string) bool {
	if header == "" {
		return false
	}
	etag = strings.TrimPrefix(etag, "W/")
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == etag {
			return true
		}
	}
	return false
}
