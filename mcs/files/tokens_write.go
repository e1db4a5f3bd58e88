package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
	"sigs.k8s.io/yaml"
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

// AppendToken adds a token to a file, which it creates if it is missing, and does not change if the server would refuse
// it.
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

var tokenHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readTokens returns all errors at once. An empty file has no tokens, so the server accepts none any more.
func readTokens(all []file) (out []*v1alpha1.ProvisioningToken, err error) {
	docs, bad := documents(all)
	from := map[string]string{}
	for _, doc := range docs {
		p := &v1alpha1.ProvisioningToken{}
		if err := decode(doc, tokenType, p); err != nil {
			bad = append(bad, err)
			continue
		}
		for _, problem := range validate(p) {
			bad = append(bad, fmt.Errorf("%s: %w", doc.position(), problem))
		}
		if other, twice := from[p.Name]; twice {
			bad = append(bad, fmt.Errorf("%s: token %s is also in %s: remove one", doc.position(), p.Name, other))
			continue
		}
		from[p.Name] = doc.position()
		out = append(out, p)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return out, nil
}

// validate finds what the API server would refuse.
func validate(p *v1alpha1.ProvisioningToken) (bad []error) {
	const again = "use the object that `bunsen token create --offline` prints"
	if !join.IsID(p.Name) {
		bad = append(bad, fmt.Errorf("the name %q is not a token id of ten characters of a-z and 2-7: %s", p.Name,
			again))
	}
	if !tokenHash.MatchString(p.Spec.Hash) {
		bad = append(bad, fmt.Errorf("spec.hash of token %s is not 64 hexadecimal digits in lower case: %s", p.Name,
			again))
	}
	if p.Spec.Pool == "" {
		bad = append(bad, fmt.Errorf("token %s has no pool: set spec.pool", p.Name))
	}
	if p.Spec.Expires.IsZero() {
		bad = append(bad, fmt.Errorf("token %s does not expire: set spec.expires, such as 2026-01-31T12:00:00Z",
			p.Name))
	}
	if p.Spec.Uses < 0 {
		bad = append(bad, fmt.Errorf("token %s: spec.uses is %d: set 0 for any number, or 1 and more for a limit",
			p.Name, p.Spec.Uses))
	}
	return bad
}
