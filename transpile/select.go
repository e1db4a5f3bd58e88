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
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// The pools that every cluster has.
const (
	masterPool = "master"
	workerPool = "worker"
)

// Selector returns the selector for a pool's MachineConfigs, as far as the repository contains it. The selector is that
// of the pool's MachineConfigPool in cluster/. If there is no MachineConfigPool for the pool, master and worker select
// their own role, and a custom pool selects worker's role and its own. The error means that the MachineConfigPool is
// invalid; the function Fragments refuses such a repository.
func Selector(pool string, objects []ClusterObject) (metav1.LabelSelector, error) {
	if o, ok := poolObject(pool, objects); ok {
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

func poolObject(pool string, objects []ClusterObject) (ClusterObject, bool) {
	for _, o := range objects {
		if o.Object.GetKind() == cluster.PoolKind && o.Object.GetName() == pool {
			return o, true
		}
	}
	return ClusterObject{}, false
}

// Select returns the fragments that the pool's Selector selects, inherited ones included, ordered by pool, then name.
// The renderer orders them by its own rules. An empty selector selects nothing.
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

// checkPools warns of pools without a MachineConfigPool. checkPools also warns of documents that a pool has twice: in
// its own directory and inherited from worker.
func checkPools(repo repository, out Result, found *origin.Findings) {
	files := map[string]map[string]string{} // pool → declaring file → fragment
	for _, f := range out.Fragments {
		if files[f.Pool] == nil {
			files[f.Pool] = map[string]string{}
		}
		files[f.Pool][f.File] = f.Name
	}
	for _, o := range out.Cluster {
		if o.Object.GetKind() == cluster.PoolKind {
			checkSelection(repo, out, o, found)
		}
	}
	signatures := signaturePolicies(out.Fragments, workerPool)
	for _, pool := range out.Pools {
		checkOwnSelection(repo, out, pool, found)
		if pool == masterPool || pool == workerPool {
			continue
		}
		at := origin.Pos{File: poolsDir + "/" + pool}
		if _, ok := poolObject(pool, out.Cluster); !ok {
			found.Warnf(at, "pool-missing", "cluster/ has no MachineConfigPool %q; unless the cluster has it, no "+
				"node uses this directory: add cluster/%s.yaml", pool, pool)
		}
		chosen, err := Selector(pool, out.Cluster)
		if err != nil {
			found.Errorf(at, "selector", "%v", err)
			continue
		}
		sel, err := metav1.LabelSelectorAsSelector(&chosen)
		if err != nil {
			found.Errorf(at, "selector", "%v", err)
			continue
		}
		if !sel.Matches(labels.Set{v1alpha1.RoleLabel: workerPool}) {
			continue
		}
		checkInherited(pool, files, found)
		checkSignatures(signatures, signaturePolicies(out.Fragments, pool), pool, found)
	}
}

// checkInherited warns of documents that a custom pool has itself and inherits from worker. Signature policies are no
// such documents: a pool that has policies of its own must list those of worker to keep them.
func checkInherited(pool string, files map[string]map[string]string, found *origin.Findings) {
	var twice []string
	for file, name := range files[pool] {
		if files[workerPool][file] != "" && name != kinds.FragmentName(pool) {
			twice = append(twice, file)
		}
	}
	slices.SortFunc(twice, cmp.Compare)
	at := origin.Pos{File: poolsDir + "/" + pool}
	for _, file := range twice {
		found.Warnf(at, "inherited-twice", "%s is in this pool as %s, and comes with worker's documents as %s too; "+
			"list it in one of them", file, files[pool][file], files[workerPool][file])
	}
}

// checkSelection warns of a MachineConfigPool without documents of its own whose selector matches no document. The
// finding is only a warning, because MachineConfigs that are not in the repository may have the labels.
func checkSelection(repo repository, out Result, o ClusterObject, found *origin.Findings) {
	pool := o.Object.GetName()
	selected, err := Select(out, pool)
	if err != nil || len(selected) > 0 || slices.Contains(out.Pools, pool) || found.HasErrors() {
		return
	}
	found.Warnf(o.Position(repo.fs, "spec.machineConfigSelector"), "empty-selection", "spec.machineConfigSelector "+
		"selects no document of this repository. Unless the cluster has other MachineConfigs with these labels, the "+
		"nodes of pool %s keep their config, and the pool becomes degraded. Add documents to %s/%s, or remove %s", pool,
		poolsDir, pool, o.File)
}

// checkOwnSelection refuses a pool that has documents of its own and whose selector matches no document.
func checkOwnSelection(repo repository, out Result, pool string, found *origin.Findings) {
	o, ok := poolObject(pool, out.Cluster)
	selected, err := Select(out, pool)
	// A document that cannot be read has no labels to select.
	if !ok || err != nil || len(selected) > 0 || found.HasErrors() {
		return
	}
	found.Errorf(o.Position(repo.fs, "spec.machineConfigSelector"), "empty-selection",
		"spec.machineConfigSelector selects no document of this repository, not even those of %s/%s: select %s: %s",
		poolsDir, pool, v1alpha1.RoleLabel, pool)
}
