package http

import (
	"net"
	"net/http"
	"time"
)

// probe responds to health probes with 200 or 503 and no body. Addresses that are not allowed get 403. The addresses of
// this host are always allowed, because the kubelet probes a pod in the host's network from them. Probes have the same
// limit as configs, but a budget of their own, so that a load balancer that hides addresses gets a response while
// thousands of machines boot.
type probe struct {
	access Access
	limits *Limiter
	ready  func() bool
	now    func() time.Time
}

// ServeHTTP responds to one probe.
func (h probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := ClientAddress(r.RemoteAddr)
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	status := http.StatusOK
	switch {
	case !IsAllowedAddress(h.access.AllowFrom, from) && !IsLocalAddress(from, local):
		status = http.StatusForbidden
	case !h.limits.Request(from, h.now()), !h.ready():
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}
