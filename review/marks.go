package review

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/transpile"
)

// SecretsAnnotation on a MachineConfigPool of the repository's cluster/ marks paths and units of that pool whose contents
// a review must not print; on the MachineConfiguration it marks them in every pool. It is a list with commas or line
// breaks between its patterns.
const SecretsAnnotation = "review.bunsen.dev/secret-paths"

// Secrets are the patterns of SecretsAnnotation: an absolute path or a unit's name in the form of path.Match, or a path
// that ends in / and means everything below it. The zero value marks nothing.
type Secrets []string

// ParseSecrets reads a list of patterns; the error names every one that could never match, which would hide nothing.
func ParseSecrets(list string) (Secrets, error) {
	var out Secrets
	var bad []error
	for _, p := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		switch _, err := path.Match(p, ""); {
		case err != nil:
			bad = append(bad, fmt.Errorf("pattern %q: %w", p, err))
		case !strings.HasPrefix(p, "/") && (strings.Contains(p, "/") || !strings.Contains(p, ".")):
			bad = append(bad, fmt.Errorf("pattern %q is neither an absolute path (/etc/app/*.conf, /etc/app/) nor a unit's name (app.service)", p))
		default:
			out = append(out, p)
		}
	}
	return out, errors.Join(bad...)
}

// marks tells whether a path or unit is marked.
func (s Secrets) marks(name string) bool {
	for _, p := range s {
		if below, all := strings.CutSuffix(p, "/"); all && strings.HasPrefix(name, below+"/") {
			return true
		}
		if ok, err := path.Match(p, name); err == nil && ok {
			return true
		}
	}
	return false
}

// secretsOf reads the annotations that concern a pool.
func secretsOf(res transpile.Result, pool string) (out Secrets, err error) {
	var bad []error
	for _, o := range res.Cluster {
		if o.Object.GetKind() != policyKind && o.Object.GetName() != pool {
			continue
		}
		marked, err := ParseSecrets(o.Object.GetAnnotations()[SecretsAnnotation])
		if err != nil {
			bad = append(bad, fmt.Errorf("%s:%d: reading annotation %s: %w", o.File, o.Line, SecretsAnnotation, err))
		}
		out = append(out, marked...)
	}
	return out, errors.Join(bad...)
}

// Secret tells whether content at a path, or of a unit of that name, must not be shown to anybody: by where it is, by what
// it holds, or because the tree marks it. Contents that are neither have no name.
func (p PoolRendering) Secret(name string, content []byte) bool {
	file := name
	if !strings.HasPrefix(name, "/") {
		file = "" // the name of a unit says nothing about its content
	}
	return name != "" && p.Secrets.marks(name) || policy.Secret(file, content)
}
