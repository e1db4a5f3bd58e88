package git

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// secretKeys are the keys of a Secret that a connection uses. They have the names that Flux uses, except hosts.
var secretKeys = []string{
	"bearerToken", "ca.crt", hostsKey, "identity", "identity.pub", "known_hosts", "password", "tls.crt", "tls.key", "username",
}

// otherNames are the keys of other programs, and of Kubernetes' own kinds of Secrets, with the key that Bunsen reads instead.
var otherNames = map[string]string{
	"ca": "ca.crt", "caFile": "ca.crt", "certFile": "tls.crt", "keyFile": "tls.key", "knownHosts": "known_hosts",
	"passphrase": "password", "ssh-privatekey": "identity", "sshPrivateKey": "identity", "tlsClientCertData": "tls.crt",
	"tlsClientCertKey": "tls.key", "token": "bearerToken", "user": "username",
}

// checkKeys returns an error that names every key of a Secret that Bunsen does not read. An unknown key is usually a
// misspelled one, and without it the remote would refuse the connection for another reason.
func checkKeys(secret map[string][]byte) error {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(secret)) {
		switch {
		case slices.Contains(secretKeys, key):
		case otherNames[key] != "":
			unknown = append(unknown, fmt.Sprintf("%q (write %s)", key, otherNames[key]))
		default:
			unknown = append(unknown, fmt.Sprintf("%q", key))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("the Secret has keys that Bunsen does not read: %s. Rename or remove them; Bunsen reads %s",
		strings.Join(unknown, ", "), strings.Join(secretKeys, ", "))
}
