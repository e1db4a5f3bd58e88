package transpile

import (
	"cmp"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/cluster"
)

// The pools that every cluster has.
const (
	masterPool = "master"
	workerPool = "worker"
)

// Selector returns the selector for a pool's MachineConfigs, as far as the repository contains it. The selector is that
// of the pool's MachineConfigPool in cluster/; an empty one selects nothing. If there is no MachineConfigPool for the
// pool, master and worker select their own role, and a custom pool selects worker's role and its own. The error means
// that the MachineConfigPool is invalid; the function Fragments refuses such a repository.
func Selector(pool string, objects []ClusterObject) (labels.Selector, error) {
	roles := []string{workerPool, pool}
	if pool == masterPool || pool == workerPool {
		roles = []string{pool}
	}
	chosen := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: v1alpha1.RoleLabel, Operator: metav1.LabelSelectorOpIn, Values: roles,
	}}}
	if o, ok := poolObject(pool, objects); ok {
		var p mcfgv1.MachineConfigPool
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &p); err != nil {
			return nil, fmt.Errorf("reading MachineConfigPool %q of %s: %w", pool, o.File, err)
		}
		chosen = cmp.Or(p.Spec.MachineConfigSelector, chosen)
	}
	selector, err := metav1.LabelSelectorAsSelector(chosen)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the selector of MachineConfigPool %q: %w", pool, err)
	case selector.Empty():
		return labels.Nothing(), nil
	}
	return selector, nil
}

func poolObject(pool string, objects []ClusterObject) (ClusterObject, bool) {
	for _, o := range objects {
		if o.Object.GetKind() == cluster.PoolKind && o.Object.GetName() == pool {
			return o, true
		}
	}
	return ClusterObject{}, false
}

// Select returns the fragments that the pool's Selector selects, inherited ones included, ordered by pool, then name.
// The renderer orders them by its own rules.
func Select(result Result, pool string) ([]Fragment, error) {
	selector, err := Selector(pool, result.Cluster)
	if err != nil {
		return nil, err
	}
	var out []Fragment
	for _, f := range result.Fragments {
		if selector.Matches(labels.Set(f.MachineConfig.Labels)) {
			out = append(out, f)
		}
	}
	return out, nil
}

// MachineConfigs returns the MachineConfig of each fragment, in the order of the fragments.
func MachineConfigs(fragments []Fragment) []*mcfgv1.MachineConfig {
	out := make([]*mcfgv1.MachineConfig, len(fragments))
	for i, f := range fragments {
		out[i] = f.MachineConfig
	}
	return out
}

// AllPools lists every pool of a result, in lexical order: pools that have a directory, and MachineConfigPools of
// cluster/, which may have no directory and only inherit documents.
func AllPools(result Result) []string {
	out := slices.Clone(result.Pools)
	for _, o := range result.Cluster {
		if o.Object.GetKind() == cluster.PoolKind {
			out = append(out, o.Object.GetName())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
