package http

import (
	"log/slog"
	"net/http"
)

// Source is where the handler finds what to serve.
type Source interface {
	// Offer returns what a pool serves now. The error is mcs.ErrUnknownPool, mcs.ErrNothingRendered or mcs.ErrNotSynced.
	Offer(pool string) (*Offer, error)
	// Ready tells whether all pools are known.
	Ready() bool
}

// Routes is the whole server but its socket: /config/<pool>, /healthz and /readyz. Any other path is 404, any other
// method than GET and HEAD 405.
func Routes(source Source, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /config/", config{source, log})
	mux.HandleFunc("GET /healthz", healthz)
	mux.Handle("GET /readyz", readyz{source})
	return mux
}
