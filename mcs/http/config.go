package http

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/mcs"
)

// retryAfter is when a machine that came too early should ask again, in seconds. Ignition asks again by itself.
const retryAfter = 5

// config answers /config/<pool>; the pool is the path's last element. Each answer is one log line.
type config struct {
	source Source
	log    *slog.Logger
}

// answered is what the log says about one request.
type answered struct {
	pool    string
	offer   *Offer // nil when there was none
	version mcs.Version
	status  int
	err     error
}

func (h config) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := answered{pool: poolOf(r.URL.Path)}
	// A cache between here and the machine must keep versions apart, whatever the answer.
	w.Header().Set("Vary", "Accept")
	if a.err = h.serve(w, r, &a); a.status == 0 {
		a.status = refuse(w, a.err)
	}
	h.record(r, a)
}

// serve answers a request, or returns why not with a.status still 0.
func (h config) serve(w http.ResponseWriter, r *http.Request, a *answered) error {
	if a.pool == "" {
		return fmt.Errorf("the path names no pool, as /config/worker would: %w", mcs.ErrUnknownPool)
	}
	var err error
	if a.offer, err = h.source.Offer(a.pool); err != nil {
		return fmt.Errorf("serving pool %q: %w", a.pool, err)
	}
	if a.version, err = mcs.Negotiate(strings.Join(r.Header.Values("Accept"), ",")); err != nil {
		return err
	}
	b := a.offer.body(a.version)
	if b.err != nil {
		return b.err
	}
	header := w.Header()
	header.Set("ETag", b.etag)
	header.Set("Cache-Control", "private, no-cache")
	if matches(r.Header.Get("If-None-Match"), b.etag) {
		a.status = http.StatusNotModified
		w.WriteHeader(a.status)
		return nil
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(b.bytes)))
	a.status = http.StatusOK
	w.WriteHeader(a.status)
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err = w.Write(b.bytes); err != nil {
		return fmt.Errorf("sending the config: %w", err)
	}
	return nil
}

// record writes the one line about a request.
func (h config) record(r *http.Request, a answered) {
	level, attrs := slog.LevelInfo, []slog.Attr{slog.String("pool", a.pool)}
	if a.offer != nil {
		attrs = append(attrs, slog.String("config", a.offer.Config()), slog.String("commit", a.offer.Commit()))
	}
	attrs = append(attrs, slog.String("version", string(a.version)), slog.String("remote", r.RemoteAddr), slog.Int("status", a.status))
	if a.err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("error", a.err.Error()))
	}
	h.log.LogAttrs(r.Context(), level, "answered "+r.Method, attrs...)
}

// refuse answers an error with its status and its text, and returns the status.
func refuse(w http.ResponseWriter, err error) int {
	status := statusOf(err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	http.Error(w, err.Error(), status)
	return status
}

// statusOf tells what a machine should do about an error: Ignition tries again on 5xx and gives up on 4xx.
func statusOf(err error) int {
	var unsupported *mcs.UnsupportedError
	var unsayable *mcs.UnsayableError
	switch {
	case errors.Is(err, mcs.ErrUnknownPool):
		return http.StatusNotFound
	case errors.Is(err, mcs.ErrNothingRendered), errors.Is(err, mcs.ErrNotSynced):
		return http.StatusServiceUnavailable
	case errors.As(err, &unsupported):
		return http.StatusBadRequest
	case errors.As(err, &unsayable):
		return http.StatusNotAcceptable
	}
	return http.StatusInternalServerError
}

// poolOf is the last element of a path below /config/, or "".
func poolOf(urlPath string) string {
	rest := strings.Trim(strings.TrimPrefix(urlPath, "/config/"), "/")
	if rest == "" {
		return ""
	}
	return path.Base(rest)
}

// matches tells whether an If-None-Match header covers an ETag.
func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == etag {
			return true
		}
	}
	return false
}
