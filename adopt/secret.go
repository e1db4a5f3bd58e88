package adopt

import (
	"bytes"
	"path"
	"strings"
)

// secretWords in a file's name mark it as one that few people should read.
var secretWords = []string{"secret", "password", "passwd", "token", "credential", "kubeconfig", "private", "shadow", "id_rsa", "id_ed25519", "id_ecdsa", "htpasswd", "auth.json"}

// secretEndings do so by the name's end.
var secretEndings = []string{".key", ".p12", ".pfx", ".jks", ".keytab", ".psk"}

// secretPaths do so as a whole.
var secretPaths = map[string]bool{
	"/var/lib/kubelet/config.json": true, // the registries' pull secret
	"/root/.docker/config.json":    true,
	"/etc/kubernetes/kubeconfig":   true,
}

// secretMarks do so by what the contents hold.
var secretMarks = []string{"PRIVATE KEY-----", `"auths"`, "client-key-data:"}

// holdsSecret tells whether a node's file should be read by few people: by its path, where there is one, or by its
// contents. It errs on the side of yes.
func holdsSecret(file string, contents []byte) bool {
	base := strings.ToLower(path.Base(file))
	if secretPaths[file] {
		return true
	}
	for _, w := range secretWords {
		if file != "" && strings.Contains(base, w) {
			return true
		}
	}
	for _, e := range secretEndings {
		if strings.HasSuffix(base, e) {
			return true
		}
	}
	for _, m := range secretMarks {
		if bytes.Contains(contents, []byte(m)) {
			return true
		}
	}
	return false
}
