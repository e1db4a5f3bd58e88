package review

import (
	"errors"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/secretmask"

	"github.com/bunsen-os/bunsen/transpile"
)

// Marks are the paths and units that the objects of a repository or a cluster mark as secret.
type Marks map[string]secretmask.Paths

// Add adds the marks of an object. The marks of the MachineConfiguration apply to all pools, and the marks of a
// MachineConfigPool apply to that pool. Objects of other kinds have no marks.
func (m Marks) Add(kind, name string, annotations map[string]string) error {
	pool := name
	switch kind {
	case PolicyKind:
		pool = allPools
	case PoolKind:
	default:
		return nil
	}
	marked, err := secretmask.ParsePaths(annotations[v1alpha1.SecretPathsAnnotation])
	m[pool] = append(m[pool], marked...)
	if err != nil {
		return fmt.Errorf("reading annotation %s of %s %q: %w", v1alpha1.SecretPathsAnnotation, kind, name, err)
	}
	return nil
}

// allPools is the key of marks that apply to all pools. No pool has this name.
const allPools = ""

// of returns the marks that apply to a pool.
func (m Marks) of(pool string) secretmask.Paths { return slices.Concat(m[allPools], m[pool]) }

// marksOf reads the marks of all objects in a repository's cluster/. marksOf ignores annotations that cannot be read;
// secretsOf reports them.
func marksOf(res transpile.Result) Marks {
	m := Marks{}
	for _, o := range res.Cluster {
		// secretsOf reports an invalid annotation with its line.
		_ = m.Add(o.Object.GetKind(), o.Object.GetName(), o.Object.GetAnnotations())
	}
	return m
}

// secretsOf reads the annotations that concern a pool. These annotations are on its MachineConfigPool, on the
// MachineConfiguration, and on those MachineConfigs from the API that the pool selects.
func secretsOf(res transpile.Result, pool string, inputs []*mcfgv1.MachineConfig) (out secretmask.Paths, err error) {
	var bad []error
	m := Marks{}
	for _, o := range res.Cluster {
		if o.Object.GetKind() != PolicyKind && o.Object.GetName() != pool {
			continue
		}
		if err := m.Add(o.Object.GetKind(), o.Object.GetName(), o.Object.GetAnnotations()); err != nil {
			bad = append(bad, fmt.Errorf("%s:%d: %w", o.File, o.Line, err))
		}
	}
	out = m.of(pool)
	for _, mc := range inputs {
		marked, err := secretmask.ParsePaths(mc.Annotations[v1alpha1.SecretPathsAnnotation])
		if err != nil {
			bad = append(bad, fmt.Errorf("reading annotation %s of MachineConfig %q: %w",
				v1alpha1.SecretPathsAnnotation, mc.Name, err))
		}
		out = append(out, marked...)
	}
	return out, errors.Join(bad...)
}

// SecretPaths returns the marks of each pool.
func (r Rendering) SecretPaths() map[string]secretmask.Paths {
	out := map[string]secretmask.Paths{}
	for _, p := range r.Pools {
		out[p.Rendered.Pool] = p.Secrets
	}
	return out
}

// trustedMarks returns base's marks, which hide contents in a review. With the marks of head, a change could hide its
// own contents.
func trustedMarks(base Side, pools ...string) (out secretmask.Paths) {
	for _, pool := range pools {
		out = append(out, base.Pools[pool].Secrets...)
		out = append(out, base.Marks.of(pool)...)
	}
	return out
}

// changedMarks returns the marks that only the new side has, and those that only the old side has. A new pool has only
// new marks; a removed one says nothing, because its contents go too.
func changedMarks(from, to Pool, trusted secretmask.Paths) (added, removed []string) {
	if to.Rendered != "" {
		added = without(to.Secrets, trusted)
	}
	if from.Rendered != "" && to.Rendered != "" {
		removed = without(from.Secrets, to.Secrets)
	}
	return added, removed
}

// without returns the patterns that another list lacks, each once.
func without(patterns, other secretmask.Paths) (out []string) {
	for _, p := range patterns {
		if !slices.Contains(other, p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
