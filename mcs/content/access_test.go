package content

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcs"
)

var (
	noon     = time.Date(2026, 11, 21, 12, 20, 0, 0, time.UTC)
	someHash = "sha512-" + strings.Repeat("0a", 64)
	other    = "sha512-" + strings.Repeat("0b", 64)
	key      = []byte("the key that all replicas share.")
)

// TestAGrantIsForOneFile has what an attacker may try with a grant for one file.
func TestAGrantIsForOneFile(t *testing.T) {
	good := sign(key, someHash, "worker", expiry(noon))
	end, rest, _ := strings.Cut(good, ".")
	mac, _, _ := strings.Cut(rest, ".")
	for says, c := range map[string]struct {
		grant, hash string
		keys        [][]byte
		at          time.Time
		want        error
	}{
		"the grant of a config":           {good, someHash, [][]byte{key}, noon, nil},
		"at its last second":              {good, someHash, [][]byte{key}, expiry(noon).Add(-time.Second), nil},
		"after a new certificate":         {good, someHash, [][]byte{[]byte("another key"), key}, noon, nil},
		"at a server whose clock is late": {good, someHash, [][]byte{key}, noon.Add(-time.Hour), nil},
		"after its end":                   {good, someHash, [][]byte{key}, expiry(noon), ErrExpired},
		"for another file":                {good, other, [][]byte{key}, noon, ErrUnknownKey},
		"of another server":               {good, someHash, [][]byte{[]byte("another key")}, noon, ErrUnknownKey},
		"where no key is known":           {good, someHash, nil, noon, ErrUnknownKey},
		"with another pool":               {strings.Replace(good, "worker", "master", 1), someHash, [][]byte{key}, noon, ErrUnknownKey},
		"with a later end":                {"9" + good[1:], someHash, [][]byte{key}, noon, ErrNoGrant},
		"with an end an hour later":       {sign([]byte("guess"), someHash, "worker", expiry(noon).Add(time.Hour)), someHash, [][]byte{key}, noon, ErrUnknownKey},
		"with a forged signature":         {end + "." + strings.Repeat("A", len(mac)) + ".worker", someHash, [][]byte{key}, noon, ErrUnknownKey},
		"with a part of the signature":    {end + "." + mac[:4] + ".worker", someHash, [][]byte{key}, noon, ErrUnknownKey},
		"with an empty signature":         {end + "..worker", someHash, [][]byte{key}, noon, ErrUnknownKey},
		"with an end in another form":     {"+" + good, someHash, [][]byte{key}, noon, ErrNoGrant},
		"with a leading zero":             {"0" + good, someHash, [][]byte{key}, noon, ErrNoGrant},
		"with a line end in the pool":     {good + "\nx", someHash, [][]byte{key}, noon, ErrNoGrant},
		"with a negative end":             {"-1." + mac + ".worker", someHash, [][]byte{key}, noon, ErrNoGrant},
		"with a pool without end":         {end + "." + mac + "." + strings.Repeat("a", 600), someHash, [][]byte{key}, noon, ErrNoGrant},
		"no grant":                        {"", someHash, [][]byte{key}, noon, ErrNoGrant},
		"a token":                         {"aaaaaaaaaa.bbbbbbbb", someHash, [][]byte{key}, noon, ErrNoGrant},
	} {
		t.Run(says, func(t *testing.T) {
			pool, err := Check(c.keys, c.grant, c.hash, c.at)
			if !errors.Is(err, c.want) || (pool == "worker") != (c.want == nil) {
				t.Errorf("it is for pool %q, %v; want %v", pool, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), mac) {
				t.Errorf("the error has a part of the grant: %v", err)
			}
		})
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(sign(key, someHash, "worker", expiry(noon)))
	f.Add("1.a.b")
	f.Fuzz(func(t *testing.T, grant string) {
		pool, err := Check([][]byte{key}, grant, someHash, noon)
		if err != nil {
			return
		}
		end, _, _ := strings.Cut(grant, ".")
		seconds, err := strconv.ParseInt(end, 10, 64)
		if err != nil || grant != sign(key, someHash, pool, time.Unix(seconds, 0)) {
			t.Errorf("%q is valid", grant)
		}
	})
}

func TestMachinesThatBootTogetherHaveTheSameGrants(t *testing.T) {
	is := Identity{Keys: [][]byte{key}, Covers: func(string) bool { return true }}
	at := func(now time.Time) mcs.ContentAccess {
		a, err := Access(is, "a:1", "worker", now)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first, same, later := at(noon), at(noon.Add(39*time.Minute)), at(noon.Add(40*time.Minute))
	if first.Grant(someHash) != same.Grant(someHash) || first.Expires != same.Expires ||
		first.Grant(someHash) == later.Grant(someHash) {
		t.Error("grants change at another time than with the hour")
	}
	if life := first.Expires.Sub(noon.Add(39 * time.Minute)); life < grantLife {
		t.Errorf("a grant is valid for %s only", life)
	}
}

func TestTheAddressIsTheServersOwn(t *testing.T) {
	for says, c := range map[string]struct {
		host, want string
		urls       []string
	}{
		"a name of the certificate":                    {"api-int.example.com:22623", "https://api-int.example.com:22623", nil},
		"behind a load balancer with another port":     {"api-int.example.com:443", "https://api-int.example.com:443", nil},
		"without a port":                               {"api-int.example.com", "https://api-int.example.com", nil},
		"an address of IPv6":                           {"[2001:db8::1]:22623", "https://[2001:db8::1]:22623", nil},
		"an address of IPv6 without a port":            {"[2001:db8::1]", "https://[2001:db8::1]", nil},
		"a host that the client invents":               {"evil.example.com:22623", "https://10.0.0.1:22623", []string{"https://10.0.0.1:22623"}},
		"a host that the client invents, and no other": {"evil.example.com:22623", "", nil},
		"a port that is none":                          {"api-int.example.com:22623/x", "https://10.0.0.1:22623", []string{"https://10.0.0.1:22623"}},
		"no host":                                      {"", "", nil},
		"a port alone":                                 {":22623", "", nil},
	} {
		t.Run(says, func(t *testing.T) {
			is := Identity{Keys: [][]byte{key}, URLs: c.urls, Covers: func(host string) bool {
				return host == "api-int.example.com" || host == "2001:db8::1"
			}}
			got, err := Access(is, c.host, "worker", noon)
			if got.Server != c.want || (err == nil) != (c.want != "") {
				t.Errorf("it is %q, %v; want %q", got.Server, err, c.want)
			}
		})
	}
	if _, err := Access(Identity{}, "a", "worker", noon); !errors.Is(err, mcs.ErrNotSynced) {
		t.Errorf("before there is a certificate: %v", err)
	}
}
