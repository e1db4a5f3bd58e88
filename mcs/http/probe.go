package http

import (
	"net"
	"net/http"
	"time"

	"github.com/bunsen-os/bunsen/mcs/http/address"
	"github.com/bunsen-os/bunsen/mcs/http/limit"
)

// probe responds to health probes with 200 or 503 and no body. Addresses that are not allowed get 403. The addresses of
// this host are always allowed, because the kubelet probes a pod in the host's network from them. Probes have the same
// limit as configs, but a budget of their own, so that a load balancer that hides addresses gets a response while
// thousands of machines boot.
type probe struct {
	access Access
	limits *limit.Limiter
	ready  func() bool
	now    func() time.Time
}

// ServeHTTP responds to one probe.
func (h probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := address.Client(r.RemoteAddr)
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	status := http.StatusOK
	switch {
	case !address.IsAllowed(h.access.AllowFrom, from) && !address.IsLocal(from, local):
		status = http.StatusForbidden
	case !h.limits.Request(from, h.now()), !h.ready():
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}
