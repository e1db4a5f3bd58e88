package files

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/join"
)

var tokenHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readTokens reads the tokens in files and returns all errors at once. An empty file has no tokens, so the server
// accepts no token any more.
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

// validate returns the errors for values that the API server would refuse.
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
