package http

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// Access configures who may read a config without a valid token or client certificate: with the zero value, nobody, and
// secrets only with a token or certificate for one node.
type Access struct {
	// Open serves every client.
	Open bool
	// SecretsToAll sends secrets to all authorized clients.
	SecretsToAll bool
	// AllowFrom are the only addresses that the server serves; empty for all. See also Server.AllowFrom.
	AllowFrom []netip.Prefix
}

// ParseAllowFrom parses networks (192.0.2.0/24, 2001:db8::/48) and single addresses. The errors name every invalid
// entry.
func ParseAllowFrom(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	var bad []error
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, single := netip.ParseAddr(text); single == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err == nil && p.Addr().Is4In6() {
			err = errors.New("an IPv4 address in the form of IPv6")
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("reading %q: want a network such as 192.0.2.0/24 or 2001:db8::/48, or an "+
				"address", text))
			continue
		}
		all = append(all, p.Masked())
	}
	return all, errors.Join(bad...)
}

// IsAllowedAddress reports whether an address is in one of the networks. Without any, each address is allowed.
func IsAllowedAddress(networks []netip.Prefix, from netip.Addr) bool {
	return len(networks) == 0 || slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(from) })
}

// ClientAddress parses the remote address of a connection, without a zone, and an IPv4-mapped one as IPv4; zero if it
// is invalid.
func ClientAddress(addrPort string) netip.Addr {
	ap, err := netip.ParseAddrPort(addrPort)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// AddressOf returns the address of one end of a connection, a net.Addr, as ClientAddress does; zero for an end that has
// no IP address.
func AddressOf(end any) netip.Addr {
	if ip, ok := end.(interface{ AddrPort() netip.AddrPort }); ok {
		return ip.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// IsLocalAddress reports whether a connection comes from this host: both of its ends have one address. local is a
// net.Addr.
func IsLocalAddress(from netip.Addr, local any) bool {
	return from.IsValid() && from == AddressOf(local)
}

// SourceAddress returns the source of an address: itself for IPv4, its network of 64 bits for IPv6, and zero for an
// invalid one.
func SourceAddress(a netip.Addr) netip.Prefix {
	const network = 64
	bits := a.BitLen()
	if a.Is6() {
		bits = network
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Of the subject of a client certificate: an organization for each pool that the client may read, and the node as the
// common name.
const (
	poolPrefix       = "bunsen:pool:"
	nodePrefix       = "bunsen:node:"
	systemNodePrefix = "system:node:"
)

// client is the identity of a request. If it is unauthorized, the fields name the invalid token or certificate.
type client struct {
	token       string // token is the id of the token.
	certificate string // certificate is the subject of the client certificate.
	node        string // node is the node that the token or certificate is for; empty: any node.
	grant       bool   // grant is true if the grant in a config authorized the request for a file.
	open        bool   // open is true if only open access authorized the request.
	ignored     error  // ignored is why a token or certificate is invalid, if something else authorized the request.
}

// usedToken reports whether the token authorized the request, so that its use counts.
func (c client) usedToken() bool { return c.token != "" && c.certificate == "" && !c.open }

// holder is whom a limit is for: a valid token or certificate, or one at a source.
type holder struct {
	proof  string // proof is "" for open access.
	source netip.Prefix
}

// holder returns who sent an authorized request.
func (c client) holder(from netip.Addr) holder {
	h := holder{source: SourceAddress(from)}
	switch {
	case c.usedToken():
		h.proof = "token " + c.token
	case c.certificate != "" && !c.open:
		h.proof = "certificate " + c.certificate
	}
	return h
}

type authorizer struct {
	tokens  Tokens
	clients *ClientCAFile // If clients is nil, no certificate authorizes a request.
	access  Access
	limits  *Limiter
	answers *mcs.Turns
}

// checkAddress refuses an address that is not allowed.
func (a authorizer) checkAddress(from netip.Addr) error {
	if !IsAllowedAddress(a.access.AllowFrom, from) {
		return errAddressNotAllowed
	}
	return nil
}

// checkSource refuses an address that is not allowed, or a source that sends too many requests.
func (a authorizer) checkSource(from netip.Addr, now time.Time) error {
	if err := a.checkAddress(from); err != nil {
		return err
	}
	if !a.limits.Request(from, now) {
		return errTooManyRequests
	}
	return nil
}

// admit authorizes a request for a pool. A client with an unknown token has to retry until the server has read all
// tokens. One whose token has no room waits for it, until the context ends.
func (a authorizer) admit(ctx context.Context, r *http.Request, to *response, isSynced bool,
	now time.Time,
) (err error) {
	to.client, err = a.authorize(r, to.pool, to.from, now)
	if err != nil && !isSynced {
		err = retryUntilSynced(err)
	}
	if err != nil {
		return err
	}
	c, _ := ctx.Value(connKey{}).(*conn)
	if of := to.client.holder(to.from); c != nil && of.proof != "" {
		return c.listener.assign(ctx, c, of)
	}
	return nil
}

// retryUntilSynced lets Ignition retry, which would give up after a 401, while the server has not read all tokens. A
// token with a wrong secret gets the same response.
func retryUntilSynced(err error) error {
	var invalid *join.InvalidError
	if isRateLimited(err) || !errors.As(err, &invalid) || invalid.Reason != join.Unknown &&
		invalid.Reason != join.Wrong {
		return err
	}
	return unavailable(notSynced, "the server has not read the provisioning tokens yet", err)
}

// authorize finds out what authorizes a request to read a pool's config: its token, its client certificate, or open
// access. Only requests with a valid token or certificate are not limited by their source. To check one costs a
// thousandth of the handshake before, which the listener limits by source. Unauthorized requests have a limit of their
// own, so that the failures of one client do not block others at the same address.
func (a authorizer) authorize(r *http.Request, pool string, from netip.Addr, now time.Time) (client, error) {
	who, err := a.tokenClient(r, pool, now)
	if err == nil {
		return who, nil
	}
	hasToken := !isMissing(err)
	if leaf := a.clientCertificate(r); leaf != nil {
		cert, problem := certificateClient(leaf, pool)
		cert.token = who.token
		if problem == nil {
			if hasToken {
				cert.ignored = err
			}
			return cert, nil
		}
		who = cert
		if !hasToken {
			err = problem
		}
	}
	if limited := a.checkSource(from, now); limited != nil {
		return who, fmt.Errorf("%w: %w", limited, err)
	}
	if a.access.Open {
		who.open, who.node = true, "" // If the certificate is ignored, it does not identify the node either.
		if !isMissing(err) {
			who.ignored = err
		}
		return who, nil
	}
	if !a.limits.Failure(from, now) {
		return who, fmt.Errorf("%w: %w", errTooManyFailures, err)
	}
	return who, err
}

func (a authorizer) tokenClient(r *http.Request, pool string, now time.Time) (client, error) {
	t, err := join.FromHeader(r.Header.Get("Authorization"))
	if err != nil {
		return client{}, err
	}
	var known *v1alpha1.ProvisioningToken
	if a.tokens != nil {
		known = a.tokens.Token(t.ID)
	}
	if err := join.CheckToken(t, known, pool, now); err != nil {
		return client{token: t.ID}, err
	}
	return client{token: t.ID, node: known.Spec.Node}, nil
}

func isMissing(err error) bool {
	var invalid *join.InvalidError
	return errors.As(err, &invalid) && invalid.Reason == join.Missing
}

// clientCertificate is nil if none of the machines' CAs signed it.
func (a authorizer) clientCertificate(r *http.Request) *x509.Certificate {
	if a.clients == nil || r.TLS == nil || !a.clients.Certificates().Issued(r.TLS.VerifiedChains) {
		return nil
	}
	return r.TLS.PeerCertificates[0]
}

// certificateClient returns what a verified certificate authorizes.
func certificateClient(leaf *x509.Certificate, pool string) (client, error) {
	who := client{certificate: leaf.Subject.String()}
	for _, prefix := range []string{nodePrefix, systemNodePrefix} {
		if node, ok := strings.CutPrefix(leaf.Subject.CommonName, prefix); ok {
			who.node = node
		}
	}
	if pool == "" || !slices.Contains(leaf.Subject.Organization, poolPrefix+pool) {
		return who, errOtherCertificate
	}
	return who, nil
}

// answer returns the writer of an authorized answer.
func (a authorizer) answer(w http.ResponseWriter, r *http.Request, to *response) turnWriter {
	return turnWriter{ResponseWriter: w, ctx: r.Context(), turns: a.answers, of: to.client.holder(to.from)}
}

// Rate limits how often an event may happen.
type Rate struct {
	// over a longer time; 0: no limit
	PerSecond float64
	// at once, at least 1
	Burst int
}

func (r Rate) limits() bool { return r.PerSecond > 0 }

// Limiter returns a limiter of one source for the rate.
func (r Rate) Limiter() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(r.PerSecond), max(r.Burst, 1))
}

// Limits apply to each source: an IPv4 address, or an IPv6 network of 64 bits, in which one machine can choose any
// address.
type Limits struct {
	// of all kinds
	Requests Rate
	// unauthorized requests
	Failures Rate
	// tracked at a time, the most recent ones; 0 is the value in DefaultLimits
	Sources int
}

// DefaultLimits lets a rack behind one address boot at once, and a boot loop continue, but a client that guesses tokens
// is slow. All tracked sources need about 4 MiB of memory.
func DefaultLimits() Limits {
	return Limits{
		Requests: Rate{PerSecond: 50, Burst: 500},
		Failures: Rate{PerSecond: 1, Burst: 20},
		Sources:  16384,
	}
}

// Limiter counts requests by source in bounded memory. Of too many sources, it drops the one that was idle the longest.
type Limiter struct {
	limits  Limits
	sources *lru.Cache[netip.Prefix, *budget]
}

// budget: what a source may still cause
type budget struct{ requests, failures *rate.Limiter }

// NewLimiter returns a limiter that has counted nothing yet.
func NewLimiter(l Limits) *Limiter {
	if l.Sources <= 0 {
		l.Sources = DefaultLimits().Sources
	}
	sources, err := lru.New[netip.Prefix, *budget](l.Sources)
	if err != nil {
		panic(err) // The only possible error is a size that is not positive, and Sources is always positive.
	}
	return &Limiter{l, sources}
}

// Request subtracts one request from a source's budget, and reports whether the budget had a request left.
func (l *Limiter) Request(from netip.Addr, now time.Time) bool {
	return !l.limits.Requests.limits() || l.of(from).requests.AllowN(now, 1)
}

// MayConnect reports whether a source has a request left in its budget.
func (l *Limiter) MayConnect(from netip.Addr, now time.Time) bool {
	return !l.limits.Requests.limits() || l.of(from).requests.TokensAt(now) >= 1
}

// Connection subtracts a connection that nothing has authorized from its source's budget, also from an empty one.
func (l *Limiter) Connection(from netip.Addr, now time.Time) {
	if l.limits.Requests.limits() {
		l.of(from).requests.ReserveN(now, 1)
	}
}

// Failure subtracts one unauthorized request from a source's budget, and reports whether the budget had one left.
func (l *Limiter) Failure(from netip.Addr, now time.Time) bool {
	return !l.limits.Failures.limits() || l.of(from).failures.AllowN(now, 1)
}

func (l *Limiter) of(from netip.Addr) *budget {
	key := SourceAddress(from)
	if b, ok := l.sources.Get(key); ok {
		return b
	}
	fresh := &budget{l.limits.Requests.Limiter(), l.limits.Failures.Limiter()}
	if b, ok, _ := l.sources.PeekOrAdd(key, fresh); ok {
		return b // A concurrent request of the source has added the budget.
	}
	return fresh
}
