package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/mcs"
)

// take mints up to n bootstrap tokens, and returns how many there were and why there were no more.
func take(s *tokenShares, m Requester, n int, now time.Time) (got int, share mcs.Share) {
	for range n {
		if err := s.reserve(m, now); err != nil {
			refused := new(mcs.ShareError)
			if errors.As(err, &refused) {
				share = refused.Share
			}
			return got, share
		}
		s.confirm(m, now)
		got++
	}
	return got, ""
}

func TestHowBootstrapTokensAreSharedOut(t *testing.T) {
	const all = 1 << 30 // as many as there are
	type ask struct {
		after         time.Duration // the ask before it
		token, source string
		sources       int // asks from that many addresses, from source on
		n             int
	}
	type answer struct {
		Got   int
		Share mcs.Share
	}
	for because, c := range map[string]struct {
		asks []ask
		want []answer
	}{
		"few machines do not notice": {
			[]ask{
				{token: "a", source: "10.0.0.1", n: 500},
				{token: "a", source: "10.0.0.2", n: 500},
				{token: "b", source: "10.0.0.1", n: 500},
			},
			[]answer{{500, ""}, {500, ""}, {500, ""}},
		},
		"a token has half, and leaves half for others": {
			[]ask{{token: "a", source: "10.0.0.1", sources: 1000, n: all}, {token: "b", source: "10.1.0.1", n: 3000}},
			[]answer{{10_000, mcs.ShareOfHolder}, {2500, mcs.ShareOfAddress}},
		},
		"a second token that takes all it gets leaves some for a third": {
			[]ask{
				{token: "a", source: "10.0.0.1", sources: 1000, n: all},
				{token: "b", source: "10.1.0.1", sources: 1000, n: all},
				{token: "c", source: "10.2.0.1", sources: 1000, n: all},
				{token: "d", source: "10.3.0.1", sources: 1000, n: all},
			},
			[]answer{
				{10_000, mcs.ShareOfHolder},
				{5000, mcs.ShareOfHolder},
				{2500, mcs.ShareOfHolder},
				{1250, mcs.ShareOfHolder},
			},
		},
		"an address has half of its token's share": {
			[]ask{{token: "a", source: "10.0.0.1", n: all}, {token: "a", source: "10.0.0.2", n: 1000}},
			[]answer{{5000, mcs.ShareOfAddress}, {1000, ""}},
		},
		"an address has half, of however many tokens": {
			[]ask{
				{token: "a", source: "10.0.0.1", n: all},
				{token: "b", source: "10.0.0.1", n: all},
				{token: "c", source: "10.0.0.1", n: all},
				{token: "d", source: "10.0.0.1", n: all},
				{token: "d", source: "10.0.0.2", n: 1000},
			},
			[]answer{
				{5000, mcs.ShareOfAddress},
				{3750, mcs.ShareOfAddress},
				{1250, mcs.ShareOfAddress},
				{0, mcs.ShareOfAddress},
				{1000, ""},
			},
		},
		"open access is by address": {
			[]ask{{source: "10.0.0.1", n: all}, {source: "10.0.0.2", n: 1000}},
			[]answer{{5000, mcs.ShareOfAddress}, {1000, ""}},
		},
		"a network of IPv6 is one address": {
			[]ask{{source: "2001:db8::1", sources: 200, n: all}, {source: "2001:db8:0:1::1", n: 1000}},
			[]answer{{5000, mcs.ShareOfAddress}, {1000, ""}},
		},
		"a share comes back after an hour": {
			[]ask{{token: "a", source: "10.0.0.1", n: all}, {
				after: 59 * time.Minute, token: "a", source: "10.0.0.1",
				n: 1,
			}, {after: time.Minute, token: "a", source: "10.0.0.1", n: all}},
			[]answer{{5000, mcs.ShareOfAddress}, {0, mcs.ShareOfAddress}, {5000, mcs.ShareOfAddress}},
		},
		"so many addresses that take one each get all there are": {
			[]ask{{source: "10.0.0.1", sources: 20_000, n: 20_000}, {source: "10.250.0.1", n: 1}},
			[]answer{{20_000, ""}, {0, mcs.ShareOfServer}},
		},
	} {
		var s tokenShares
		now := morning
		var got []answer
		for _, a := range c.asks {
			now = now.Add(a.after)
			var sum answer
			address := netip.MustParseAddr(a.source)
			for range max(a.sources, 1) {
				n, share := take(&s, RequesterOf(mcs.JoiningMachine{Token: a.token, Address: address.String()}),
					(a.n+max(a.sources, 1)-1)/max(a.sources, 1), now)
				sum.Got += n
				sum.Share = max(sum.Share, share)
				address = address.Next()
			}
			got = append(got, sum)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", because, diff)
		}
	}
}

func TestEachMinterHasAShareOfItsOwn(t *testing.T) {
	seen := map[Requester]string{}
	for because, m := range map[string]mcs.JoiningMachine{
		"a token":                          {Token: "a", Address: "192.0.2.1"},
		"another token":                    {Token: "b", Address: "192.0.2.1"},
		"a token from elsewhere":           {Token: "a", Address: "192.0.2.2"},
		"a certificate":                    {Certificate: "CN=a", Address: "192.0.2.1"},
		"another certificate":              {Certificate: "CN=b", Address: "192.0.2.1"},
		"a certificate called like one":    {Certificate: "a", Address: "192.0.2.1"},
		"nothing":                          {Address: "192.0.2.1"},
		"nothing from elsewhere":           {Address: "192.0.2.2"},
		"IPv6":                             {Address: "2001:db8::1"},
		"another network of IPv6":          {Address: "2001:db8:0:1::1"},
		"an address that nobody can read":  {Address: "?"},
		"a token from an unknown address ": {Token: "a"},
	} {
		key := RequesterOf(m)
		if other, twice := seen[key]; twice {
			t.Errorf("%s and %s have one share", because, other)
		}
		seen[key] = because
	}
	for because, m := range map[string][2]mcs.JoiningMachine{
		"an address of IPv4 in the form of IPv6": {{Address: "192.0.2.1"}, {Address: "::ffff:192.0.2.1"}},
		"an address with a zone":                 {{Address: "2001:db8::1%eth0"}, {Address: "2001:db8::2"}},
	} {
		if RequesterOf(m[0]) != RequesterOf(m[1]) {
			t.Errorf("%s has a share of its own", because)
		}
	}
}

// A million addresses ask, most of them in vain.
func TestSharesAreOfBoundedSize(t *testing.T) {
	var s tokenShares
	bounded := func() bool {
		return len(s.byHolder) <= tokensPerHour && len(s.bySource) <= tokensPerHour &&
			len(s.byRequester) <= tokensPerHour && len(s.issued) <= tokensPerHour
	}
	for i := range 1_000_000 {
		m := RequesterOf(mcs.JoiningMachine{
			Token:   fmt.Sprint(i % 100_000),
			Address: netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String(),
		})
		if s.reserve(m, morning) == nil {
			s.confirm(m, morning)
		}
		if i%1000 == 0 && !bounded() {
			t.Fatalf("after %d: %d holders, %d sources, %d minters, %d minted", i, len(s.byHolder), len(s.bySource),
				len(s.byRequester), len(s.issued))
		}
	}
	if s.reserved != tokensPerHour {
		t.Errorf("%d are taken", s.reserved)
	}
	s.expire(morning.Add(time.Hour))
	if n := len(s.byHolder) + len(s.bySource) + len(s.byRequester) + len(s.issued) + s.reserved; n != 0 {
		t.Errorf("an hour later %d are remembered", n)
	}
}

func TestAReservationThatIsGivenBackIsForOthers(t *testing.T) {
	var s tokenShares
	m := RequesterOf(mcs.JoiningMachine{Token: "a", Address: "192.0.2.1"})
	for range 3 * tokensPerHour {
		if err := s.reserve(m, morning); err != nil {
			t.Fatal(err)
		}
		s.release(m)
	}
	if s.reserved != 0 || len(s.byRequester) != 0 {
		t.Errorf("%d are taken", s.reserved)
	}
}
