package review

import (
	"bytes"
	"path"
	"strings"
)

// secretWords in a file's name mark it as one whose content nobody prints.
var secretWords = []string{"secret", "password", "passwd", "token", "credential", "kubeconfig", "private", "shadow", "id_rsa", "id_ed25519", "id_ecdsa", "htpasswd", "auth.json"}

// secretSuffixes do so by their ending.
var secretSuffixes = []string{".key", ".p12", ".pfx", ".jks", ".keytab", ".psk"}

// secretFiles do so by their whole path.
var secretFiles = map[string]bool{
	"/var/lib/kubelet/config.json": true, // the registries' pull secret
	"/root/.docker/config.json":    true,
	"/etc/kubernetes/kubeconfig":   true,
}

// secret tells whether content at a path must not be printed: by where it is, or by what it holds. It errs on the side
// of hiding.
func secret(file string, content []byte) bool {
	base := strings.ToLower(path.Base(file))
	if secretFiles[file] {
		return true
	}
	for _, w := range secretWords {
		if file != "" && strings.Contains(base, w) {
			return true
		}
	}
	for _, s := range secretSuffixes {
		if strings.HasSuffix(base, s) {
			return true
		}
	}
	return bytes.Contains(content, []byte("PRIVATE KEY-----"))
}
