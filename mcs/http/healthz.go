package http

import "net/http"

// healthz answers 200 as long as the process serves at all.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}
