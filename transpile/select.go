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
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// The pools that every cluster has.
const (
	masterPool = "master"
	workerPool = "worker"
)

// Selector says which MachineConfigs a pool takes, as far as the repository knows: by its MachineConfigPool in
// cluster/, else master and worker take their own role, and a custom pool takes worker's and its own. The error means
// that the MachineConfigPool is not one; Fragments lets none through.
func Selector(pool string, cluster []ClusterObject) (metav1.LabelSelector, error) {
	if o, ok := poolObject(pool, cluster); ok {
		var p mcfgv1.MachineConfigPool
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &p); err != nil {
			return metav1.LabelSelector{}, fmt.Errorf("reading MachineConfigPool %q of %s: %w", pool, o.File, err)
		}
		if p.Spec.MachineConfigSelector != nil {
			return *p.Spec.MachineConfigSelector, nil
		}
	}
	if pool == masterPool || pool == workerPool {
		return metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.RoleLabel: pool}}, nil
	}
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: v1alpha1.RoleLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{workerPool, pool},
	}}}, nil
}

func poolObject(pool string, cluster []ClusterObject) (ClusterObject, bool) {
	for _, o := range cluster {
		if o.Object.GetKind() == poolKind && o.Object.GetName() == pool {
			return o, true
		}
	}
	return ClusterObject{}, false
}

// Select returns the fragments that a pool takes by its Selector, inherited ones included, ordered by pool, then name.
// The renderer orders them by its own rules. An empty selector takes nothing.
func Select(result Result, pool string) ([]Fragment, error) {
	chosen, err := Selector(pool, result.Cluster)
	if err != nil {
		return nil, err
	}
	if len(chosen.MatchLabels)+len(chosen.MatchExpressions) == 0 {
		return nil, nil
	}
	sel, err := metav1.LabelSelectorAsSelector(&chosen)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of MachineConfigPool %q: %w", pool, err)
	}
	var out []Fragment
	for _, f := range result.Fragments {
		if sel.Matches(labels.Set(f.MachineConfig.Labels)) {
			out = append(out, f)
		}
	}
	return out, nil
}

// MachineConfigs returns the fragments' objects in the same order.
func MachineConfigs(fragments []Fragment) []*mcfgv1.MachineConfig {
	out := make([]*mcfgv1.MachineConfig, len(fragments))
	for i, f := range fragments {
		out[i] = f.MachineConfig
	}
	return out
}

// AllPools lists every pool that a result speaks of, in lexical order: directories, and MachineConfigPools of cluster/,
// which may live off what they inherit.
func AllPools(result Result) []string {
	out := slices.Clone(result.Pools)
	for _, o := range result.Cluster {
		if o.Object.GetKind() == poolKind {
			out = append(out, o.Object.GetName())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// inheritance warns of what inheritance makes odd: a pool that nothing declares, and a document that a pool has twice,
// its own and the inherited.
func (r *run) inheritance() {
	files := map[string]map[string]string{} // pool → declaring file → fragment
	for _, f := range r.out.Fragments {
		if files[f.Pool] == nil {
			files[f.Pool] = map[string]string{}
		}
		files[f.Pool][f.File] = f.Name
	}
	for _, o := range r.out.Cluster {
		if o.Object.GetKind() == poolKind {
			clusterReader{r}.selectsNothing(o)
		}
	}
	for _, pool := range r.out.Pools {
		clusterReader{r}.passesBy(pool)
		if pool == masterPool || pool == workerPool {
			continue
		}
		at := origin.Pos{File: poolsDir + "/" + pool}
		if _, ok := poolObject(pool, r.out.Cluster); !ok {
			r.warn(at, "pool-missing", "cluster/ has no MachineConfigPool %q; unless the cluster has it, no node will ever take this directory: add cluster/%s.yaml", pool, pool)
		}
		chosen, err := Selector(pool, r.out.Cluster)
		if err != nil {
			r.fatal(at, "selector", "%v", err)
			continue
		}
		sel, err := metav1.LabelSelectorAsSelector(&chosen)
		if err != nil {
			r.fatal(at, "selector", "%v", err)
			continue
		}
		if !sel.Matches(labels.Set{v1alpha1.RoleLabel: workerPool}) {
			continue
		}
		var twice []string
		for file := range files[pool] {
			if files[workerPool][file] != "" {
				twice = append(twice, file)
			}
		}
		slices.SortFunc(twice, cmp.Compare)
		for _, file := range twice {
			r.warn(at, "inherited-twice", "%s is in this pool as %s, and comes with worker's documents as %s too; list it in one of them", file, files[pool][file], files[workerPool][file])
		}
	}
}
