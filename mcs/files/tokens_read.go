package files

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/token"
)

var tokenHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readTokens makes tokens of files. All that is wrong is told at once; an empty file holds none, which is how all of them
// are taken away.
func readTokens(all []content) (out []*v1alpha1.ProvisioningToken, err error) {
	docs, bad := documents(all)
	from := map[string]string{}
	for _, doc := range docs {
		p := &v1alpha1.ProvisioningToken{}
		if err := decode(doc, tokenType, p); err != nil {
			bad = append(bad, err)
			continue
		}
		for _, problem := range problems(p) {
			bad = append(bad, fmt.Errorf("%s: %w", doc.at(), problem))
		}
		if other, twice := from[p.Name]; twice {
			bad = append(bad, fmt.Errorf("%s: token %s is in %s already: leave one", doc.at(), p.Name, other))
			continue
		}
		from[p.Name] = doc.at()
		out = append(out, p)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return out, nil
}

// problems are what the API server would refuse.
func problems(p *v1alpha1.ProvisioningToken) (bad []error) {
	const again = "take the object as `bunsen token create --offline` prints it"
	if !token.IsID(p.Name) {
		bad = append(bad, fmt.Errorf("the name %q is no token's id, which has ten characters of a-z and 2-7: %s", p.Name, again))
	}
	if !tokenHash.MatchString(p.Spec.Hash) {
		bad = append(bad, fmt.Errorf("spec.hash of token %s is not 64 hexadecimal digits in lower case: %s", p.Name, again))
	}
	if p.Spec.Pool == "" {
		bad = append(bad, fmt.Errorf("token %s is for no pool: set spec.pool", p.Name))
	}
	if p.Spec.Expires.IsZero() {
		bad = append(bad, fmt.Errorf("token %s has no end: set spec.expires, such as 2026-01-31T12:00:00Z", p.Name))
	}
	if p.Spec.Uses < 0 {
		bad = append(bad, fmt.Errorf("token %s: spec.uses is %d: 0 is any number, 1 and more is that many", p.Name, p.Spec.Uses))
	}
	return bad
}
