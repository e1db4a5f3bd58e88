package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TokenDocument returns the YAML document of a token, without the fields that an API server sets.
func TokenDocument(t *v1alpha1.ProvisioningToken) ([]byte, error) {
	out, err := yaml.Marshal(struct {
		APIVersion string                         `json:"apiVersion"`
		Kind       string                         `json:"kind"`
		Metadata   map[string]string              `json:"metadata"`
		Spec       v1alpha1.ProvisioningTokenSpec `json:"spec"`
	}{t.APIVersion, t.Kind, map[string]string{"name": t.Name}, t.Spec})
	if err != nil {
		return nil, fmt.Errorf("writing the token's object: %w", err)
	}
	return out, nil
}

// AppendToken adds a token to a file of tokens. AppendToken creates a missing file, and does not change a file that the
// server would refuse.
func AppendToken(name string, t *v1alpha1.ProvisioningToken) (err error) {
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the tokens: %w", err)
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return fmt.Errorf("%s:1: no token was added: the file is JSON, and tokens are added as YAML; name another file",
			name)
	}
	if _, err := readTokens([]file{{name, data}}); err != nil {
		return fmt.Errorf("no token was added; fix the file first:\n%w", err)
	}
	document, err := TokenDocument(t)
	if err != nil {
		return err
	}
	separator := "---\n"
	if len(data) > 0 {
		separator = "\n---\n" // The last line of the file may have no line break.
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	_, err = f.Write(append([]byte(separator), document...))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
