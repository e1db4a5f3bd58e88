package access

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/source"
)

// HostsKey is the key of a Secret whose value lists the hosts that the credentials are for.
const HostsKey = "hosts"

// standardPorts are the ports, by scheme, of addresses without a port.
var standardPorts = map[string]string{"https": "443", "http": "80", "ssh": "22", "oci": "443"}

// Recipients decide to which hosts the credentials of one source may go, whatever kind they have: a password, a token,
// a login of a registry, the key of a GitHub App, or a client certificate. A client that has a credential asks Allow
// before it uses the credential for a request.
type Recipients struct {
	own    source.Address
	hosts  string
	listed bool
	// loopback allows plain http to a loopback address.
	loopback bool
}

// RecipientsOf returns the recipients of a Secret's credentials, and of those in the URL itself. The Secret's key hosts
// lists `host` or `host:port`, separated by spaces, commas or lines. A host without a port has the standard port.
// Without this key, the only recipient is the host and port of the URL.
func RecipientsOf(url source.Address, secret map[string][]byte) Recipients {
	hosts, listed := secret[HostsKey]
	return Recipients{url, string(hosts), listed, listed || !secretHolds(secret)}
}

// Allow reports whether credentials may go to the host and port of an address.
func (r Recipients) Allow(to source.Address) bool { return r.check(to) == nil }

// check returns why credentials must not go to an address. Plain http is for loopback addresses only, if the Secret
// lists them in hosts or the URL itself contains the credentials.
func (r Recipients) check(to source.Address) error {
	ip, err := netip.ParseAddr(to.Host)
	switch {
	case r.listed && !namesHost(r.hosts, to) || !r.listed && !SameEndpoint(r.own, to):
		return fmt.Errorf("the key hosts of the Secret does not name %s, so the controller does not send the "+
			"credentials there. Correct the URL, or add the host: %s below stringData", Endpoint(to), line(to))
	case to.Scheme == "http" && (err != nil || !ip.IsLoopback() || !r.loopback):
		return errors.New("the controller does not send credentials over http://, because it is not encrypted: use " +
			"https:// or ssh://, or remove the credentials")
	}
	return nil
}

// line returns the line of a Secret that lists the host of an address.
func line(a source.Address) string { return fmt.Sprintf("%q", HostsKey+": "+Endpoint(a)) }

// CheckHosts returns an error if the credentials must not be sent to the address. If required is true, a Secret with
// credentials for https must list its hosts.
//
// Credentials for ssh need no list of hosts: known_hosts names the servers, and the client never sends a private key.
func CheckHosts(a source.Address, secret map[string][]byte, required bool) error {
	if !holdsCredentials(a, secret) {
		return nil
	}
	to := RecipientsOf(a, secret)
	if !to.listed && required && a.Transport != source.SSH {
		return fmt.Errorf("the Secret does not name the hosts for its credentials, so the controller does not send "+
			"them: add the line %s below stringData", line(a))
	}
	return to.check(a)
}

// AddressOf returns the address to which a request goes.
func AddressOf(u *url.URL) source.Address {
	return source.Address{Scheme: u.Scheme, Host: u.Hostname(), Port: u.Port()}
}

// SameEndpoint reports whether two addresses have the same protocol, host and port.
func SameEndpoint(a, b source.Address) bool {
	return strings.EqualFold(a.Host, b.Host) && protocol(a) == protocol(b) && portOf(a) == portOf(b)
}

// protocol returns the scheme in which a client speaks to an address.
func protocol(a source.Address) string {
	if a.Scheme == "oci" {
		return "https"
	}
	return a.Scheme
}

// ErrElsewhere is the error for a redirect to another protocol, host or port.
var ErrElsewhere = errors.New("the server redirects to another host or port, which Bunsen does not follow: write the " +
	"repository's final address into the URL. If this is a login page, check the path and the credentials")

// CheckRedirect returns ErrElsewhere for a redirect to another protocol, host or port.
func CheckRedirect(from, to *url.URL) error {
	if SameEndpoint(AddressOf(from), AddressOf(to)) {
		return nil
	}
	return ErrElsewhere
}

func portOf(a source.Address) string {
	if a.Port == "" {
		return standardPorts[a.Scheme]
	}
	return a.Port
}

// holdsCredentials reports whether a client that connects to the address could send a secret or authenticate itself.
func holdsCredentials(a source.Address, secret map[string][]byte) bool {
	switch a.Transport {
	case source.HTTP, source.OCI:
		return secretHolds(secret) || a.User != "" || a.Password != ""
	case source.SSH:
		return true
	default:
		return false
	}
}

// secretHolds reports whether a Secret has a credential that a client sends, or with which it proves who it is.
func secretHolds(secret map[string][]byte) bool {
	return slices.ContainsFunc([]string{"username", "password", "bearerToken", "tls.key"}, func(key string) bool {
		return len(secret[key]) > 0
	})
}

// namesHost reports whether a list of hosts contains the address.
func namesHost(list string, a source.Address) bool {
	for _, host := range strings.FieldsFunc(list, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t'
	}) {
		other := source.Address{Scheme: a.Scheme, Host: host}
		if name, p, ok := cutPort(host); ok {
			other.Host, other.Port = name, p
		}
		if other.Host = strings.Trim(other.Host, "[]"); SameEndpoint(other, a) {
			return true
		}
	}
	return false
}

// cutPort splits host:port. An IPv6 address has a port only behind brackets.
func cutPort(host string) (name, port string, ok bool) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") || strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		return host, "", false
	}
	return host[:i], host[i+1:], true
}

// Endpoint returns the address in the form of an entry in a list of hosts.
func Endpoint(a source.Address) string {
	host := a.Host
	if a.Port == "" || a.Port == standardPorts[a.Scheme] {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + a.Port
}
