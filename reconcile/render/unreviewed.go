package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
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
	patterns, err := secretmask.ParsePaths(allowed)
	bad := []error{}
	if err != nil {
		bad = append(bad, fmt.Errorf("reading annotation %s of MachineConfigPool %s: %w",
			v1alpha1.UnreviewedPathsAnnotation, r.Pool, err))
	}
	for _, refused := range notReviewed(r, patterns) {
		bad = append(bad, fmt.Errorf("%s: %s%s. Write it in clear text, or let the owner of the pool allow the "+
			"path: set the annotation `%s: %s` on MachineConfigPool %s in cluster/", refused.Field, refused.Why,
			r.book.setBy(entry{refused.Kind, refused.Name}), v1alpha1.UnreviewedPathsAnnotation,
			refused.Name, r.Pool))
	}
	return errors.Join(bad...)
}

// notReviewed returns the contents that no reviewer can read and that the patterns do not allow.
func notReviewed(r Rendered, allowed secretmask.Paths) []disruption.Refusal {
	return slices.DeleteFunc(disruption.Unreviewed(machineconfig.Flattened(r.Config)), func(p disruption.Refusal) bool {
		return allowed.Match(p.Name)
	})
}

// NotAllowed returns what Merge would refuse if the pool had this annotation: contents that no reviewer can read in
// places where they are code, in the config of the pool and in those of its nodes. A text that several nodes share is
// in the result once.
func (r Rendered) NotAllowed(annotation string) (out []string) {
	allowed, _ := secretmask.ParsePaths(annotation) // Patterns that are wrong allow nothing.
	add := func(of Rendered) {
		for _, refused := range notReviewed(of, allowed) {
			if text := refused.Field + ": " + refused.Why; !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	add(r)
	for _, name := range slices.Sorted(maps.Keys(r.Nodes.Nodes)) {
		own, err := r.Node(name)
		if err != nil { // There is no error, because the same config was merged for its name before.
			out = append(out, err.Error())
		}
		add(own)
		if len(out) >= maxNodeProblems {
			break
		}
	}
	return out
}
