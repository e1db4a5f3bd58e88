package http

import (
	"net/http"

	"github.com/bunsen-os/bunsen/mcs"
)

// readyz answers 200 once all pools are known, so that no load balancer sends a machine to a server that would turn it
// away. It stays 200 while the API server is away: the last known configs are served.
type readyz struct{ source Source }

func (h readyz) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.source.Ready() {
		refuse(w, mcs.ErrNotSynced)
		return
	}
	healthz(w, r)
}
