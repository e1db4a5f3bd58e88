package credentials

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/source"
)

// HostsKey is the key of a Secret whose value lists the hosts that the credentials are for.
const HostsKey = "hosts"

// standardPorts are the ports, by scheme, of addresses without a port.
var standardPorts = map[string]string{"https": "443", "http": "80", "ssh": "22", "oci": "443"}

// CheckHosts returns an error if the credentials must not be sent to the address. The Secret's key hosts lists `host`
// or `host:port`, separated by spaces, commas or lines. A host without a port has the standard port. If required is
// true, a Secret with credentials for https must have this list.
//
// Credentials for ssh need no list of hosts: known_hosts names the servers, and the client never sends a private key.
func CheckHosts(a source.Address, secret map[string][]byte, required bool) error {
	if !holdsCredentials(a, secret) {
		return nil
	}
	line := fmt.Sprintf("%q", HostsKey+": "+Endpoint(a))
	hosts, listed := secret[HostsKey]
	switch {
	case listed && !NamesHost(string(hosts), a):
		return fmt.Errorf("the key hosts of the Secret does not name %s, so the controller does not send the "+
			"credentials there. Correct the URL, or add the host: %s below stringData", Endpoint(a), line)
	case !listed && required && a.Transport != source.SSH:
		return fmt.Errorf("the Secret does not name the hosts for its credentials, so the controller does not send "+
			"them: add the line %s below stringData", line)
	}
	return checkEncrypted(a, secret)
}

// checkEncrypted refuses credentials for plain http. Only loopback addresses may use plain http, if the Secret lists
// them in hosts or the URL itself contains the credentials.
func checkEncrypted(a source.Address, secret map[string][]byte) error {
	if a.Scheme != "http" {
		return nil
	}
	ip, err := netip.ParseAddr(a.Host)
	_, listed := secret[HostsKey]
	if err == nil && ip.IsLoopback() && (listed || !secretHolds(secret)) {
		return nil
	}
	return errors.New("the controller does not send credentials over http://, because it is not encrypted: use " +
		"https:// or ssh://, or remove the credentials")
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

// secretHolds reports whether a Secret has a credential that a client sends.
func secretHolds(secret map[string][]byte) bool {
	return slices.ContainsFunc([]string{"username", "password", "bearerToken"}, func(key string) bool {
		return len(secret[key]) > 0
	})
}

// NamesHost reports whether a list of hosts contains the address.
func NamesHost(list string, a source.Address) bool {
	port := a.Port
	if port == "" {
		port = standardPorts[a.Scheme]
	}
	for _, host := range strings.FieldsFunc(list, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t'
	}) {
		other := source.Address{Scheme: a.Scheme, Host: host}
		if name, p, ok := cutPort(host); ok {
			other.Host, other.Port = name, p
		}
		if other.Port == "" {
			other.Port = standardPorts[a.Scheme]
		}
		if strings.EqualFold(strings.Trim(other.Host, "[]"), a.Host) && other.Port == port {
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
