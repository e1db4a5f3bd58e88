package machines

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// The object in which the machine-config-server publishes its data for new machines, for messages.
const (
	publishedIn = "ConfigMap " + v1alpha1.ServerNamespace + "/" + v1alpha1.ServerConfigMap
	urlSource   = "the key " + v1alpha1.ServerURLKey + " of " + publishedIn
)

// publishedServers is what a cluster says about its machine-config-servers.
type publishedServers struct {
	// nil if there is none
	published map[string]string
	// the reports of the replicas that run
	alive []v1alpha1.ServerReport
}

// daemons returns the architectures of each running server's daemon, never nil.
func (s publishedServers) daemons() [][]string {
	out := [][]string{}
	for _, r := range s.alive {
		out = append(out, r.Daemons)
	}
	return out
}

func (s publishedServers) authority() ([]byte, error) {
	if text := s.published[v1alpha1.ServerCAKey]; text != "" {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("the server's CA is unknown: %s has no key %s; does a machine-config-server run in the "+
		"cluster? "+
		"--ca FILE names its CA's certificate, and --no-ca trusts those of the machine's image", publishedIn,
		v1alpha1.ServerCAKey)
}

// url returns the URL at which new machines reach the server: the one that a user configured, or else the only one of a
// server whose certificate the CA signed, or of any server without a CA. caSource names the origin of the CA in
// messages.
func (s publishedServers) url(ca []byte, caSource string) (string, error) {
	if text := strings.TrimSpace(s.published[v1alpha1.ServerURLKey]); text != "" {
		if err := join.CheckServer(text); err != nil {
			return "", fmt.Errorf("%s is %w; fix it there, or set --server", urlSource, err)
		}
		return text, nil
	}
	urls, others, err := s.reported(ca)
	if err != nil {
		return "", err
	}
	if len(urls) == 0 && len(others) > 0 {
		return "", anotherCA(others, caSource)
	}
	const fix = "say it with --server https://HOST:22623, or once for all: kubectl -n " + v1alpha1.ServerNamespace +
		" patch configmap " + v1alpha1.ServerConfigMap + " -p '{\"data\":{\"" + v1alpha1.ServerURLKey +
		"\":\"https://HOST:22623\"}}'"
	switch len(urls) {
	case 0:
		return "", errors.New("how new machines reach the server is not known: " + fix)
	case 1:
		return urls[0], nil
	}
	return "", fmt.Errorf("there is more than one server (%s): %s, with an address that leads to all of them",
		strings.Join(urls, ", "), fix)
}

// reported returns the URLs of the running servers: those whose certificate the CA signed, or that do not report its
// issuer, and the others, which machines with that CA reject. Without a CA, all are in urls.
func (s publishedServers) reported(ca []byte) (urls, others []string, err error) {
	believed, err := join.Fingerprints(ca)
	if err != nil {
		return nil, nil, err
	}
	known := func(sum string) bool { return slices.Contains(believed, sum) }
	for _, r := range s.alive {
		at, err := netip.ParseAddrPort(r.Listen)
		if err != nil || at.Addr().IsUnspecified() || at.Addr().IsLoopback() || at.Addr().IsLinkLocalUnicast() {
			continue // This server does not report how machines reach it.
		}
		into := &urls
		if len(believed) > 0 && len(r.Authorities) > 0 && !slices.ContainsFunc(r.Authorities, known) {
			into = &others
		}
		if u := "https://" + at.String(); !slices.Contains(*into, u) {
			*into = append(*into, u)
		}
	}
	slices.Sort(urls)
	slices.Sort(others)
	return urls, others, nil
}

// checkServer refuses the URL of a server whose certificate machines with the CA reject. It does not check other URLs.
func (s publishedServers) checkServer(server string, ca []byte, caSource string) error {
	urls, others, err := s.reported(ca)
	if server = strings.TrimSuffix(server, "/"); err != nil || slices.Contains(urls, server) ||
		!slices.Contains(others, server) {
		return err
	}
	return anotherCA([]string{server}, caSource)
}

func anotherCA(urls []string, caSource string) error {
	return fmt.Errorf("the server at %s has its certificate from another CA than %s has: give --server and --ca",
		strings.Join(urls, ", "), caSource)
}
