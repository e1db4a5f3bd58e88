package machineconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// factPrefix begins the placeholder of a fact of nodes in a template.
const factPrefix = "node."

// Facts returns the names of the facts that a template uses, each once, in the order of the text. They may be invalid.
func (c SecretContent) Facts() []string {
	var out []string
	for _, p := range c.parts {
		if p.fact != "" && !slices.Contains(out, p.fact) {
			out = append(out, p.fact)
		}
	}
	return out
}

// WithFacts returns a template with the value in place of each fact. A value cannot change what the template refers to:
// it has no $, so it is never a part of a placeholder. The error joins those of value, which WithFacts calls once for
// each fact.
func (c SecretContent) WithFacts(value func(fact string) (string, error)) (string, error) {
	values, bad := map[string]string{}, []error{}
	for _, fact := range c.Facts() {
		v, err := value(fact)
		if err == nil && strings.Contains(v, "$") {
			err = fmt.Errorf("the fact %q contains $, and a template with references to secrets cannot use such a "+
				"value: write the text into a document of the node", fact)
		}
		values[fact], bad = v, append(bad, err)
	}
	if err := errors.Join(bad...); err != nil {
		return "", err
	}
	var out strings.Builder
	for _, p := range c.parts {
		if p.fact != "" {
			out.WriteString(values[p.fact])
		} else {
			out.WriteString(p.raw)
		}
	}
	return out.String(), nil
}
