package http

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// daemonHandler serves /daemon/<arch>/<pool>: the Ignition config that installs the daemon. It authorizes a request as
// configHandler does, but counts no use of the token, because the same machine also requests the config of its pool.
type daemonHandler struct {
	binaries   join.Binaries
	authorizer authorizer
	synced     func() bool
	log        *requestLog
	now        func() time.Time
}

// ServeHTTP serves one request.
func (h *daemonHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := h.now()
	a := response{
		from: ClientAddress(r.RemoteAddr), pool: r.PathValue("pool"),
		subject: subject{daemon: r.PathValue("arch")},
	}
	w.Header().Set("Vary", vary)
	if a.err = h.serve(w, r, &a, now); a.status == 0 {
		a.status = writeError(w, a.err)
	}
	h.log.add(r, &a, now)
}

// serve returns why it cannot serve a request, and leaves a.status 0 then.
func (h *daemonHandler) serve(w http.ResponseWriter, r *http.Request, a *response, now time.Time) error {
	err := h.authorizer.checkAddress(a.from)
	if err != nil {
		return err
	}
	if err = h.authorizer.admit(r.Context(), r, a, h.synced(), now); err != nil {
		return err
	}
	config, err := h.config(r, a)
	if err != nil {
		return err
	}
	a.status = http.StatusOK
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(config.Len()))
	w.WriteHeader(a.status)
	if r.Method == http.MethodHead {
		return nil
	}
	if a.sent, err = config.WriteTo(h.authorizer.answer(w, r, a)); err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err != nil {
		return fmt.Errorf("sending the daemon: %w", err)
	}
	return nil
}

func (h *daemonHandler) config(r *http.Request, a *response) (join.DaemonConfig, error) {
	var err error
	if a.format.Version, err = mcs.Negotiate(headerList(r, "Accept")); err != nil {
		return join.DaemonConfig{}, err
	}
	config, err := h.binaries.Config(a.format.Version, a.daemon, r.URL.Query().Get("path"))
	if errors.Is(err, join.ErrPath) {
		err = &httpError{status: http.StatusBadRequest, reason: "Unsupported", message: err.Error()}
	}
	return config, err
}
