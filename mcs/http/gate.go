package http

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/token"
)

// Access says who may have a config, beside who has a good token or client certificate. The zero value: nobody, and without
// its secrets unless the token or certificate is bound to a node.
type Access struct {
	// Open serves whoever asks.
	Open bool
	// SecretsToAll serves configs with their secrets to everybody who may have them.
	SecretsToAll bool
	// AllowFrom are the only addresses that may ask; empty is any.
	AllowFrom []netip.Prefix
}

// ParseAllowFrom reads networks (192.0.2.0/24, 2001:db8::/48) and single addresses. The errors name every bad one.
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
			bad = append(bad, fmt.Errorf("reading %q: want a network such as 192.0.2.0/24 or 2001:db8::/48, or an address", text))
			continue
		}
		all = append(all, p.Masked())
	}
	return all, errors.Join(bad...)
}

// What a client certificate says in its subject: the pools that it may ask for, one organization each, and the node that it
// is for as its common name.
const (
	poolPrefix       = "bunsen:pool:"
	nodePrefix       = "bunsen:node:"
	systemNodePrefix = "system:node:"
)

// grant is what admitted a request, and what else was shown. Of a request that was refused it names what was refused.
type grant struct {
	token       string // its id
	certificate string // its subject
	node        string // the one that token or certificate is bound to; empty is none
	open        bool   // nothing did: access is open
	passed      error  // what was shown and is not good, where something else did
}

// counts tells whether it was the token that did, so that its use counts.
func (g grant) counts() bool { return g.token != "" && g.certificate == "" && !g.open }

// gate decides who comes in.
type gate struct {
	tokens Tokens
	access Access
	limits *limiter
}

// bound turns away what is not to be looked at any closer.
func (g gate) bound(from netip.Addr, now time.Time) error {
	if len(g.access.AllowFrom) > 0 && !slices.ContainsFunc(g.access.AllowFrom, func(p netip.Prefix) bool { return p.Contains(from) }) {
		return errForeign
	}
	if !g.limits.request(from, now) {
		return errTooMany
	}
	return nil
}

// admit finds what of a request is good for a pool's config: its token, its client certificate, or open access; any one
// does. Failures have a limit of their own, but what is good is admitted past it: nobody locks a neighbour out by failing.
func (g gate) admit(r *http.Request, pool string, from netip.Addr, now time.Time) (grant, error) {
	who, err := g.byToken(r, pool, now)
	if err == nil {
		return who, nil
	}
	shown := !missing(err)
	if leaf := verified(r); leaf != nil {
		cert, problem := byCertificate(leaf, pool)
		cert.token = who.token
		if problem == nil {
			if shown {
				cert.passed = err
			}
			return cert, nil
		}
		who = cert
		if !shown {
			shown, err = true, problem
		}
	}
	if g.access.Open {
		who.open, who.node = true, "" // a certificate that is not good for the pool makes nobody its node either
		if shown {
			who.passed = err
		}
		return who, nil
	}
	if !g.limits.failure(from, now) {
		return who, fmt.Errorf("%w; the last: %w", errTooManyFailures, err)
	}
	return who, err
}

func (g gate) byToken(r *http.Request, pool string, now time.Time) (grant, error) {
	t, err := token.FromHeader(r.Header.Get("Authorization"))
	if err != nil {
		return grant{}, err
	}
	var known *v1alpha1.ProvisioningToken
	if g.tokens != nil {
		known = g.tokens.Token(t.ID)
	}
	if err := token.Judge(t, known, pool, now); err != nil {
		return grant{token: t.ID}, err
	}
	return grant{token: t.ID, node: known.Spec.Node}, nil
}

func missing(err error) bool {
	var refused *token.Refusal
	return errors.As(err, &refused) && refused.Reason == token.Missing
}

// verified is the client certificate of a request, or nil where there is none that leads to an authority of ours.
func verified(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0][0]
}

// byCertificate reads what a verified certificate is good for.
func byCertificate(leaf *x509.Certificate, pool string) (grant, error) {
	who := grant{certificate: leaf.Subject.String()}
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
