package transport

import (
	"slices"

	"github.com/bunsen-os/bunsen/source/access"
)

// checkKeys returns an error that names every key of a Secret that no connection to a git server uses.
func checkKeys(secret map[string][]byte) error {
	return access.CheckKeys(secret, slices.Concat(
		[]string{"bearerToken", "ca.crt", access.HostsKey}, identityKeys(),
		[]string{"identity.pub", "known_hosts", "password", "tls.crt", "tls.key", "username"}))
}
