package review

import (
	"slices"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/policy/secret"
	"github.com/bunsen-os/bunsen/internal/review/cluster"
	"github.com/bunsen-os/bunsen/transpile"
)

// poolAnnotations returns the annotations of a pool's MachineConfigPool in cluster/.
func poolAnnotations(res transpile.Result, pool string) map[string]string {
	for _, o := range res.Cluster {
		if o.Object.GetKind() == cluster.PoolKind && o.Object.GetName() == pool {
			return o.Object.GetAnnotations()
		}
	}
	return nil
}

// unreviewedOf returns the paths that a tree allows to have contents that no reviewer can read. Rendering reports
// patterns that cannot match.
func unreviewedOf(res transpile.Result, pool string) secret.Paths {
	out, _ := secret.ParsePaths(poolAnnotations(res, pool)[v1alpha1.UnreviewedPathsAnnotation])
	return out
}

// newlyUnreviewed returns the patterns that only the new side has: the change itself allows what its reviewer cannot
// read. The sides of a cluster have no patterns of their own.
func newlyUnreviewed(from, to Pool) (out []string) {
	for _, pattern := range to.Unreviewed {
		if !slices.Contains(from.Unreviewed, pattern) && !slices.Contains(out, pattern) {
			out = append(out, pattern)
		}
	}
	return out
}
