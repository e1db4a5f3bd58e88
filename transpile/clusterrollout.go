package transpile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy/pace"
)

// standardPools are in every cluster, whether or not the repository has documents for them.
var standardPools = []string{"master", "worker"}

// rollout checks what no controller could use of a RolloutPolicy.
func (r clusterReader) rollout(file string, root *yaml.Node, p *v1alpha1.RolloutPolicy) {
	for _, problem := range pace.Check(p) {
		r.fatal(fieldPlace(file, root, strconv.Quote(problem.Path)), "rollout", "%s: %s", problem.Path, problem.Text)
	}
}

// rollouts checks what the RolloutPolicies say of pools, once all of cluster/ is read.
func (r clusterReader) rollouts() {
	pools := map[string]*mcfgv1.MachineConfigPool{}
	for _, name := range slices.Concat(standardPools, r.out.Pools) {
		pools[name] = &mcfgv1.MachineConfigPool{}
		pools[name].Name = name
	}
	var policies []v1alpha1.RolloutPolicy
	var objects []ClusterObject
	for _, o := range r.out.Cluster {
		switch o.Object.GetKind() {
		case poolKind:
			pool := &mcfgv1.MachineConfigPool{}
			pool.Name, pool.Labels = o.Object.GetName(), o.Object.GetLabels()
			pools[pool.Name] = pool
		case rolloutKind:
			var p v1alpha1.RolloutPolicy
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &p) == nil { // it was read before
				policies, objects = append(policies, p), append(objects, o)
			}
		}
	}
	for i := range policies {
		r.unknownPools(objects[i], "spec.pools", policies[i].Spec.Pools, pools)
		r.unknownPools(objects[i], "spec.after", policies[i].Spec.After, pools)
	}
	r.rings(pools, policies, objects)
}

func (r clusterReader) unknownPools(o ClusterObject, field string, names []string, pools map[string]*mcfgv1.MachineConfigPool) {
	for i, name := range names {
		if pools[name] == nil {
			at := fmt.Sprintf("%s[%d]", field, i)
			r.warn(r.fieldOf(o, at), "rollout", "%s: this repository has no pool %q; there are %s", at, name, strings.Join(slices.Sorted(maps.Keys(pools)), ", "))
		}
	}
}

// rings refuses pools that wait for each other: none of them would ever be rolled out.
func (r clusterReader) rings(pools map[string]*mcfgv1.MachineConfigPool, policies []v1alpha1.RolloutPolicy, objects []ClusterObject) {
	after := map[string][]string{}
	for name, pool := range pools {
		if p, err := pace.For(pool, policies); err == nil {
			after[name] = p.After
		}
	}
	ring := pace.Cycle(after)
	if ring == nil {
		return
	}
	for i, p := range policies {
		at := slices.Index(p.Spec.After, ring[1%len(ring)])
		if at < 0 {
			continue
		}
		if mine, err := pace.For(pools[ring[0]], policies[i:i+1]); err != nil || len(mine.Policies) == 0 {
			continue
		}
		field := fmt.Sprintf("spec.after[%d]", at)
		r.fatal(r.fieldOf(objects[i], field), "rollout", "%s: pools wait for each other, and none would ever be rolled out: %s; remove one of these from after", field, strings.Join(append(ring, ring[0]), " after "))
		return
	}
}
