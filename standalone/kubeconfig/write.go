package kubeconfig

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Identity is who reaches which API server, and by what proof.
type Identity struct {
	// Server is the API server's URL.
	Server string
	// CA, Cert and Key are paths of PEM files; their content goes into the kubeconfig.
	CA, Cert, Key string
	// User is the name shown by kubectl config; it decides nothing.
	User string
}

const form = `apiVersion: v1
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

// Write makes the file, or leaves it untouched where it says this already.
func Write(path string, id Identity) error {
	var encoded [3]string
	for i, p := range []string{id.CA, id.Cert, id.Key} {
		raw, err := os.ReadFile(p)
		if err != nil {
			return fmt.Errorf("writing the kubeconfig of %s: %w", id.User, err)
		}
		encoded[i] = base64.StdEncoding.EncodeToString(raw)
	}
	content := []byte(fmt.Sprintf(form, id.Server, encoded[0], id.User, id.User, encoded[1], encoded[2]))
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing the kubeconfig of %s: %w", id.User, err)
	}
	// Beside and then renamed: somebody may be reading the old one.
	beside := path + ".new"
	if err := os.WriteFile(beside, content, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", id.User, err)
	}
	if err := os.Rename(beside, path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", id.User, err)
	}
	return nil
}
