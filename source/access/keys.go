package access

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// otherNames maps keys that other programs, and Kubernetes' own types of Secrets, use to the keys that Bunsen reads.
var otherNames = map[string]string{
	"ca": "ca.crt", "caFile": "ca.crt", "certFile": "tls.crt", "keyFile": "tls.key", "knownHosts": "known_hosts",
	"passphrase": "password", "ssh-privatekey": "identity", "sshPrivateKey": "identity", "tlsClientCertData": "tls.crt",
	"tlsClientCertKey": "tls.key", "token": "bearerToken", "user": "username",
	"githubAppEnterpriseBaseUrl": "githubAppBaseURL",
	"githubAppId":                "githubAppID", "githubAppInstallationId": "githubAppInstallationID", "url": "address",
	"proxy": "address",
}

// CheckAdvice is the advice in errors for refused credentials. For credentials that come from no Secret, errors must
// have another advice.
const CheckAdvice = "check username and password, or bearerToken, in the Secret of secretRef"

// CheckLogin returns an error for a user name, password or token that no request can carry, or if there are both a
// token and a password.
func CheckLogin(secret map[string][]byte) error {
	for _, key := range []string{"username", "password", "bearerToken"} {
		if bytes.ContainsAny(secret[key], "\r\n\x00") {
			return fmt.Errorf("the Secret's %s contains a line break or a zero byte: write it without one, for "+
				"example with printf in place of echo", key)
		}
	}
	if len(secret["bearerToken"]) > 0 && len(secret["username"])+len(secret["password"]) > 0 {
		return errors.New("the Secret holds both bearerToken and username or password: keep one of them")
	}
	return nil
}

// CheckKeys returns an error that names every key of a Secret that is not one of the known keys. An unknown key is
// usually a misspelled key. Without the error of CheckKeys, the remote would refuse the connection for a reason that
// misleads the user.
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
