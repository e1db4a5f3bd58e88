package credentials

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// otherNames are the keys of other programs, and of Kubernetes' own kinds of Secrets, with the key that Bunsen reads instead.
var otherNames = map[string]string{
	"ca": "ca.crt", "caFile": "ca.crt", "certFile": "tls.crt", "keyFile": "tls.key", "knownHosts": "known_hosts",
	"passphrase": "password", "ssh-privatekey": "identity", "sshPrivateKey": "identity", "tlsClientCertData": "tls.crt",
	"tlsClientCertKey": "tls.key", "token": "bearerToken", "user": "username", "githubAppEnterpriseBaseUrl": "githubAppBaseURL",
	"githubAppId": "githubAppID", "githubAppInstallationId": "githubAppInstallationID", "url": "address", "proxy": "address",
}

// CheckKeys returns an error that names every key of a Secret that is not one of the known keys. An unknown key is usually
// a misspelled one, and without it the remote would refuse the connection for another reason.
func CheckKeys(secret map[string][]byte, known []string) error {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(secret)) {
		switch {
		case slices.Contains(known, key):
		case slices.Contains(known, otherNames[key]):
			unknown = append(unknown, fmt.Sprintf("%q (write %s)", key, otherNames[key]))
		default:
			unknown = append(unknown, fmt.Sprintf("%q", key))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("the Secret has keys that Bunsen does not read: %s. Rename or remove them; Bunsen reads %s",
		strings.Join(unknown, ", "), strings.Join(known, ", "))
}
