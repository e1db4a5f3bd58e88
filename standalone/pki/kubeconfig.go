package pki

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Kubeconfig is the content of a kubeconfig file.
type Kubeconfig struct {
	// Server is the API server's URL.
	Server string
	// CA, Cert and Key are paths of PEM files whose content the kubeconfig contains.
	CA, Cert, Key string
	// User is the name that kubectl config shows. User has no effect.
	User string
}

const kubeconfigTemplate = `apiVersion: v1
kind: Config
clusters:
- name: bunsen
  cluster:
    server: %s
    certificate-authority-data: %s
contexts:
- name: bunsen
  context:
    cluster: bunsen
    user: %q
current-context: bunsen
users:
- name: %q
  user:
    client-certificate-data: %s
    client-key-data: %s
`

// WriteKubeconfig writes the file. WriteKubeconfig does not touch a file with the same content.
func WriteKubeconfig(path string, k Kubeconfig) error {
	var encoded [3]string
	for i, p := range []string{k.CA, k.Cert, k.Key} {
		raw, err := os.ReadFile(p)
		if err != nil {
			return fmt.Errorf("writing the kubeconfig of %s: %w", k.User, err)
		}
		encoded[i] = base64.StdEncoding.EncodeToString(raw)
	}
	content := []byte(fmt.Sprintf(kubeconfigTemplate, k.Server, encoded[0], k.User, k.User, encoded[1], encoded[2]))
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing the kubeconfig of %s: %w", k.User, err)
	}
	// The content is written to another file, which is then renamed, because a process may read the old file.
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", k.User, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", k.User, err)
	}
	return nil
}
