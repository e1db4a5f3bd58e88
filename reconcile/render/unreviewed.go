package render

import (
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/policy"
	"github.com/bunsen-os/bunsen/internal/policy/secret"
)

// allUnreviewed allows all contents that nobody can review. It is for configs that exist already.
const allUnreviewed = "/"

// For returns the defaults for a pool with these annotations.
func (d Defaults) For(annotations map[string]string) Defaults {
	d.Unreviewed = annotations[v1alpha1.UnreviewedPathsAnnotation]
	return d
}

// ForExisting returns the defaults for a config that has been rendered before, and is not judged again.
func (d Defaults) ForExisting() Defaults {
	d.Unreviewed = allUnreviewed
	return d
}

// checkReviewed refuses contents that no reviewer can read in places where they are code, unless the pool allows them.
func checkReviewed(r Rendered, allowed string) error {
	patterns, err := secret.ParsePaths(allowed)
	bad := []error{}
	if err != nil {
		bad = append(bad, fmt.Errorf("reading annotation %s of MachineConfigPool %s: %w",
			v1alpha1.UnreviewedPathsAnnotation, r.Pool, err))
	}
	for _, refused := range policy.Unreviewed(machineconfig.Flattened(r.Config)) {
		if !patterns.Match(refused.Name) {
			bad = append(bad, fmt.Errorf("%s: %s%s. Write it in clear text, or let the owner of the pool allow the "+
				"path: set the annotation `%s: %s` on MachineConfigPool %s in cluster/", refused.Field, refused.Why,
				r.book.setBy(entry{refused.Kind, refused.Name}), v1alpha1.UnreviewedPathsAnnotation,
				refused.Name, r.Pool))
		}
	}
	return errors.Join(bad...)
}
