package review

import (
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"

	"github.com/bunsen-os/bunsen/transpile"
)

// poolAnnotations returns the annotations of a pool's MachineConfigPool in cluster/.
func poolAnnotations(res transpile.Result, pool string) map[string]string {
	for _, o := range res.Cluster {
		if o.Object.GetKind() == PoolKind && o.Object.GetName() == pool {
			return o.Object.GetAnnotations()
		}
	}
	return nil
}

// Allowances are the values of v1alpha1.UnreviewedPathsAnnotation by MachineConfigPool: at which paths the pool may
// have contents that no reviewer can read. A MachineConfigPool that allows none has an empty value.
type Allowances map[string]string

// Add adds the allowance of a MachineConfigPool.
func (a Allowances) Add(pool string, annotations map[string]string) {
	a[pool] = annotations[v1alpha1.UnreviewedPathsAnnotation]
}

// allowancesOf reads the MachineConfigPools in a repository's cluster/.
func allowancesOf(res transpile.Result) Allowances {
	out := Allowances{}
	for _, o := range res.Cluster {
		if o.Object.GetKind() == PoolKind {
			out.Add(o.Object.GetName(), o.Object.GetAnnotations())
		}
	}
	return out
}

// of returns what a pool may have. A pool that this side does not have may have what worker may, because a custom pool
// gets the documents of worker: otherwise no change could add a pool beside a worker with such contents.
func (a Allowances) of(pool string) string {
	if own, known := a[pool]; known || IsStandard(pool) {
		return own
	}
	return a[nextPool]
}

// newlyUnreviewed returns the patterns that only head has, and what of the pool's configs base does not allow: the
// change itself allows what its reviewer cannot read. Rendering reports patterns that cannot match.
func newlyUnreviewed(pool string, base, head Side) (patterns, refused []string) {
	allowed := base.Allowed.of(pool)
	was, _ := secretmask.ParsePaths(allowed)
	is, _ := secretmask.ParsePaths(head.Allowed.of(pool))
	patterns = without(is, was)
	if to := head.Pools[pool]; len(patterns) > 0 && to.NotAllowed != nil {
		refused = to.NotAllowed(allowed)
	}
	return patterns, refused
}
