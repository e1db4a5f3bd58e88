package transpile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// rolloutReader checks what the RolloutPolicies of a repository say together.
type rolloutReader struct {
	clusterReader
	pools    map[string]*mcfgv1.MachineConfigPool
	policies []v1alpha1.RolloutPolicy
	objects  []ClusterObject // of the policies, in the same order
}

// rollouts checks what the RolloutPolicies say of pools, once all of cluster/ is read.
func rollouts(of clusterReader) {
	r := rolloutReader{clusterReader: of, pools: map[string]*mcfgv1.MachineConfigPool{}}
	for _, name := range slices.Concat(standardPools, r.out.Pools) {
		r.know(name, nil)
	}
	for _, o := range r.out.Cluster {
		switch o.Object.GetKind() {
		case poolKind:
			r.know(o.Object.GetName(), o.Object.GetLabels())
		case rolloutKind:
			var p v1alpha1.RolloutPolicy
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &p) == nil { // it was read before
				r.policies, r.objects = append(r.policies, p), append(r.objects, o)
			}
		}
	}
	for i, p := range r.policies {
		o := r.objects[i]
		r.unknownPools(o, "spec.pools", p.Spec.Pools)
		r.unknownPools(o, "spec.after", p.Spec.After)
		r.noPool(o, p.Spec.MachineConfigPoolSelector)
		for _, doubt := range pace.Doubts(&p) {
			r.warn(r.fieldOf(o, doubt.Path), "rollout", "%s: %s", doubt.Path, doubt.Text)
		}
	}
	r.idleJobs()
	r.rings()
}

// know adds a pool. The standard ones have two labels in every cluster, whatever the repository says.
func (r rolloutReader) know(name string, labels map[string]string) {
	pool := &mcfgv1.MachineConfigPool{}
	pool.Name, pool.Labels = name, map[string]string{}
	if slices.Contains(standardPools, name) {
		pool.Labels["pools.operator.machineconfiguration.openshift.io/"+name] = ""
		pool.Labels["machineconfiguration.openshift.io/mco-built-in"] = ""
	}
	maps.Copy(pool.Labels, labels)
	r.pools[name] = pool
}

func (r rolloutReader) unknownPools(o ClusterObject, field string, names []string) {
	for i, name := range names {
		if r.pools[name] == nil {
			at := fmt.Sprintf("%s[%d]", field, i)
			r.warn(r.fieldOf(o, at), "rollout", "%s: this repository has no pool %q; there are %s", at, name, strings.Join(slices.Sorted(maps.Keys(r.pools)), ", "))
		}
	}
}

// noPool warns of a selector that matches no pool of the repository.
func (r rolloutReader) noPool(o ClusterObject, by *metav1.LabelSelector) {
	const field = "spec.machineConfigPoolSelector"
	sel, err := metav1.LabelSelectorAsSelector(by)
	if by == nil || err != nil {
		return
	}
	for _, pool := range r.pools {
		if sel.Matches(labels.Set(pool.Labels)) {
			return
		}
	}
	r.warn(r.fieldOf(o, field), "rollout", "%s: no pool of this repository has such labels; give them to a MachineConfigPool in %s/, or name pools under spec.pools", field, clusterDir)
}

// idleJobs warns of gates with a job where no pool of their policy has steps: a job is asked at the end of each.
func (r rolloutReader) idleJobs() {
	for i, p := range r.policies {
		at := slices.IndexFunc(p.Spec.Gates, func(g v1alpha1.HealthGate) bool { return g.Job != nil })
		if at < 0 || p.Spec.Canary != nil || len(p.Spec.Batches) > 0 {
			continue
		}
		selected, steps := false, false
		for _, pool := range r.pools {
			mine, err := pace.For(pool, r.policies[i:i+1])
			if err != nil || len(mine.Policies) == 0 {
				continue
			}
			selected = true
			all, err := pace.For(pool, r.policies)
			steps = steps || err != nil || len(all.Steps) > 0
		}
		if selected && !steps {
			field := fmt.Sprintf("spec.gates[%d].job", at)
			r.warn(r.fieldOf(r.objects[i], field), "rollout", "%s: the job is never run: give a canary or batches, as a job is asked at the end of each", field)
		}
	}
}

// rings refuses pools that wait for each other: none of them would ever be rolled out.
func (r rolloutReader) rings() {
	after := map[string][]string{}
	for name, pool := range r.pools {
		if p, err := pace.For(pool, r.policies); err == nil {
			after[name] = p.After
		}
	}
	ring := pace.Cycle(after)
	if ring == nil {
		return
	}
	for i, p := range r.policies {
		at := slices.Index(p.Spec.After, ring[1%len(ring)])
		if at < 0 {
			continue
		}
		if mine, err := pace.For(r.pools[ring[0]], r.policies[i:i+1]); err != nil || len(mine.Policies) == 0 {
			continue
		}
		field := fmt.Sprintf("spec.after[%d]", at)
		r.fatal(r.fieldOf(r.objects[i], field), "rollout", "%s: pools wait for each other, and none would ever be rolled out: %s; remove one of these from after", field, strings.Join(append(ring, ring[0]), " after "))
		return
	}
}
