package http

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/shelf"
)

// Source is where the handler finds what to serve.
type Source interface {
	// Offer returns what a pool serves now. The error is mcs.ErrUnknownPool, mcs.ErrNothingRendered (or one of its kind) or
	// mcs.ErrNotSynced.
	Offer(pool string) (*shelf.Offer, error)
	// Ready tells whether anything is known. Until then nobody gets a config.
	Ready() bool
	// Complete tells whether all pools and all tokens are known. Until then what is not known may come to be.
	Complete() bool
}

// Tokens is what is known of provisioning tokens.
type Tokens interface {
	// Token returns what is kept of the token with this id, or nil. It is not changed here.
	Token(id string) *v1alpha1.ProvisioningToken
	// Use counts a use before it is answered. A *token.Refusal says that the token is no longer good, after all; any other
	// error that it cannot be counted now, so that the machine has to ask again.
	Use(ctx context.Context, id string, use v1alpha1.TokenUse) error
}

// For says who a bootstrap token is made for: all of it is told in the token's description. It is an alias, so that a Joiner
// needs nothing of this package.
type For = struct {
	Pool, Node, Token, Address string
	// Attested tells that a token or a certificate let the machine in for this pool, and not that everyone is let in.
	Attested bool
}

// Joiner makes bootstrap tokens.
type Joiner interface {
	// Mint makes one for one machine, mcs.TokenLength characters long.
	Mint(ctx context.Context, f For) (string, error)
}

// Options are what Routes is made of. Source and Log are needed; the rest may be left out.
type Options struct {
	Source Source
	// Tokens; nil knows none.
	Tokens Tokens
	// Joiner; nil makes none, so that bodies with room for a bootstrap token are not served.
	Joiner Joiner
	// Access says who may ask.
	Access Access
	// Limits by source; the zero value has none, see DefaultLimits.
	Limits Limits
	// Audit takes one line of JSON per answer; nil keeps none. One line is one Write, and there is one Write at a time.
	Audit io.Writer
	// Log takes one line per answer.
	Log *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Routes is the whole server but its socket: /config/<pool>, /healthz and /readyz. Any other path is 404, any other
// method than GET and HEAD 405. The counts are those of all answers of /config/ from now on.
func Routes(o Options) (http.Handler, *Counts) {
	if o.Now == nil {
		o.Now = time.Now
	}
	counts := newCounts()
	mux := http.NewServeMux()
	mux.Handle("GET /config/", &config{
		source: o.Source,
		gate:   gate{tokens: o.Tokens, access: o.Access, limits: newLimiter(o.Limits)},
		due:    due{tokens: o.Tokens, joiner: o.Joiner},
		record: newRecord(o.Log, o.Audit, counts),
		now:    o.Now,
	})
	mux.HandleFunc("GET /healthz", healthz)
	mux.Handle("GET /readyz", readyz{o.Source})
	return mux, counts
}
