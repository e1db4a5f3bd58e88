package policy

import (
	"reflect"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// compareIgnition appends the differences of what two configs tell Ignition about itself, in lexical order. The version is
// none: every config is read as the newest.
func compareIgnition(cs Changes, a, b ign.Ignition) Changes {
	part := func(name string, same, had, has bool) {
		for _, c := range one(nil, KindIgnition, !same, had, has) {
			c.Name = name
			cs = append(cs, c)
		}
	}
	part("config.merge", slices.EqualFunc(a.Config.Merge, b.Config.Merge, sameContents), len(a.Config.Merge) > 0, len(b.Config.Merge) > 0)
	part("config.replace", sameContents(a.Config.Replace, b.Config.Replace), !isZero(a.Config.Replace), !isZero(b.Config.Replace))
	part("proxy", sameProxy(a.Proxy, b.Proxy), !isZero(a.Proxy), !isZero(b.Proxy))
	tlsA, tlsB := a.Security.TLS.CertificateAuthorities, b.Security.TLS.CertificateAuthorities
	part("security.tls", slices.EqualFunc(tlsA, tlsB, sameContents), len(tlsA) > 0, len(tlsB) > 0)
	part("timeouts", deepEqual(a.Timeouts, b.Timeouts), !isZero(a.Timeouts), !isZero(b.Timeouts))
	return cs
}

// IgnitionParts names what a config tells Ignition about itself, as Changes of KindIgnition do, in lexical order.
func IgnitionParts(i ign.Ignition) (names []string) {
	for _, c := range compareIgnition(nil, ign.Ignition{}, i) {
		names = append(names, c.Name)
	}
	return names
}

// sameProxy compares proxies; hosts that need none may stand in any order.
func sameProxy(a, b ign.Proxy) bool {
	hosts := func(p ign.Proxy) []ign.NoProxyItem { return slices.Sorted(slices.Values(p.NoProxy)) }
	return deepEqual(a.HTTPProxy, b.HTTPProxy) && deepEqual(a.HTTPSProxy, b.HTTPSProxy) && slices.Equal(hosts(a), hosts(b))
}

func isZero[T any](v T) bool { return reflect.ValueOf(v).IsZero() }
