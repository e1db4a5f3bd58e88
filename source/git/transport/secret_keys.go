package transport

import "github.com/bunsen-os/bunsen/source/credentials"

// checkKeys returns an error that names every key of a Secret that no connection to a git server uses.
func checkKeys(secret map[string][]byte) error {
	return credentials.CheckKeys(secret, []string{
		"bearerToken", "ca.crt", credentials.HostsKey, "identity", "identity.pub", "known_hosts", "password", "tls.crt", "tls.key", "username",
	})
}
