package cluster

import (
	"net/netip"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
)

// TokenTTL is how long a machine has from its first config to its first certificate.
const TokenTTL = time.Hour

// tokensPerHour of one replica may be valid at a time: etcd stores each for an hour, and the holder of one unlimited
// provisioning token must not fill it.
const tokensPerHour = 20_000

// Requester identifies the client that requests a bootstrap token.
type Requester struct {
	holder string       // holder is the provisioning token or the client certificate or, for open access, the source.
	source netip.Prefix // source is an IPv4 address, or an IPv6 network of 64 bits; zero if unknown.
}

// RequesterOf returns who a machine counts as.
func RequesterOf(machine mcs.JoiningMachine) Requester {
	const network = 64
	r := Requester{}
	if a, err := netip.ParseAddr(machine.Address); err == nil {
		a = a.Unmap().WithZone("")
		bits := a.BitLen()
		if a.Is6() {
			bits = network
		}
		r.source = netip.PrefixFrom(a, bits).Masked()
	}
	switch {
	case machine.Token != "":
		r.holder = "token " + machine.Token
	case machine.Certificate != "":
		r.holder = "certificate " + machine.Certificate
	default:
		r.holder = "address " + r.source.String()
	}
	return r
}

// tokenShares divides the bootstrap tokens of an hour among requesters. A holder may have as many as are left for all
// others: one greedy requester gets half, two get a third each, and so on. So may a source within its holder's share.
// It has at most tokensPerHour entries. The zero value is ready to use, for one goroutine at a time.
type tokenShares struct {
	reserved    int // reserved counts the tokens that were created within the last hour, or are being created.
	byHolder    map[string]int
	bySource    map[netip.Prefix]int
	byRequester map[Requester]int
	issued      []issuedToken // issued has the created tokens, the oldest first.
}

type issuedToken struct {
	at time.Time
	by Requester
}

// reserve takes one token of a requester's share, or returns a *mcs.ShareError. Call confirm or release then.
func (s *tokenShares) reserve(r Requester, now time.Time) error {
	s.expire(now)
	left := tokensPerHour - s.reserved
	ofHolder := s.byHolder[r.holder]
	leftToHolder := (left - ofHolder + 1) / 2 // For each token of a source, one token stays free for other sources.
	switch {
	case left <= 0:
		return &mcs.ShareError{Share: mcs.ShareOfServer}
	case s.bySource[r.source] >= left, s.byRequester[r] >= leftToHolder && ofHolder < left:
		return &mcs.ShareError{Share: mcs.ShareOfAddress}
	case ofHolder >= left:
		return &mcs.ShareError{Share: mcs.ShareOfHolder}
	}
	s.add(r, 1)
	return nil
}

// confirm ends a reservation whose token was created.
func (s *tokenShares) confirm(r Requester, now time.Time) {
	s.issued = append(s.issued, issuedToken{now, r})
}

// release ends a reservation whose token was not created.
func (s *tokenShares) release(r Requester) { s.add(r, -1) }

// expire removes tokens of an hour ago, which have expired.
func (s *tokenShares) expire(now time.Time) {
	for len(s.issued) > 0 && now.Sub(s.issued[0].at) >= TokenTTL {
		s.add(s.issued[0].by, -1)
		s.issued = s.issued[1:]
	}
}

func (s *tokenShares) add(r Requester, n int) {
	if s.byHolder == nil {
		s.byHolder, s.bySource, s.byRequester = map[string]int{}, map[netip.Prefix]int{}, map[Requester]int{}
	}
	s.reserved += n
	addCount(s.byHolder, r.holder, n)
	addCount(s.bySource, r.source, n)
	addCount(s.byRequester, r, n)
}

// addCount deletes a counter that is 0.
func addCount[K comparable](counters map[K]int, key K, n int) {
	if counters[key] += n; counters[key] == 0 {
		delete(counters, key)
	}
}
