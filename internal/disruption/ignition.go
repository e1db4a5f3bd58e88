package disruption

import (
	"reflect"
	"slices"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
)

// compareIgnition returns the differences of Ignition's settings in two configs, in lexical order. The version is not a
// difference, because every config is read as the newest version.
func compareIgnition(a, b ign.Ignition) (cs Changes) {
	part := func(name string, same, had, has bool) {
		for _, c := range compareOne(KindIgnition, same, had, has) {
			c.Name = name
			cs = append(cs, c)
		}
	}
	part("config.merge", slices.EqualFunc(a.Config.Merge, b.Config.Merge, sameContents), len(a.Config.Merge) > 0,
		len(b.Config.Merge) > 0)
	part("config.replace", sameContents(a.Config.Replace, b.Config.Replace), !isZero(a.Config.Replace),
		!isZero(b.Config.Replace))
	part("proxy", sameProxy(a.Proxy, b.Proxy), !isZero(a.Proxy), !isZero(b.Proxy))
	tlsA, tlsB := a.Security.TLS.CertificateAuthorities, b.Security.TLS.CertificateAuthorities
	part("security.tls", slices.EqualFunc(tlsA, tlsB, sameContents), len(tlsA) > 0, len(tlsB) > 0)
	part("timeouts", deepEqual(a.Timeouts, b.Timeouts), !isZero(a.Timeouts), !isZero(b.Timeouts))
	return cs
}

// IgnitionParts returns the names of Ignition's settings in a config, in lexical order. Changes of KindIgnition have
// the same names.
func IgnitionParts(i ign.Ignition) (names []string) {
	for _, c := range compareIgnition(ign.Ignition{}, i) {
		names = append(names, c.Name)
	}
	return names
}

// sameProxy compares proxies. The order of noProxy has no meaning.
func sameProxy(a, b ign.Proxy) bool {
	hosts := func(p ign.Proxy) []ign.NoProxyItem { return slices.Sorted(slices.Values(p.NoProxy)) }
	return deepEqual(a.HTTPProxy, b.HTTPProxy) && deepEqual(a.HTTPSProxy, b.HTTPSProxy) &&
		slices.Equal(hosts(a), hosts(b))
}

func isZero[T any](v T) bool { return reflect.ValueOf(v).IsZero() }
