package http

import (
	"net/netip"
	"slices"
)

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

// IsAllowedAddress reports whether an address is in one of the networks. Without any, each address is allowed.
func IsAllowedAddress(networks []netip.Prefix, from netip.Addr) bool {
	return len(networks) == 0 || slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(from) })
}

// IsLocalAddress reports whether a connection comes from this host: both of its ends have one address. local is a
// net.Addr.
func IsLocalAddress(from netip.Addr, local any) bool {
	return from.IsValid() && from == AddressOf(local)
}
