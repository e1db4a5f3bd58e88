package cluster

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// standardPools are the pools that every cluster has, even if the repository has no documents for them.
var standardPools = []string{"master", "worker"}

// rollout refuses values of a RolloutPolicy that the controller cannot use.
func (r *reader) rollout(root *yaml.Node, p *v1alpha1.RolloutPolicy) {
	for _, problem := range schedule.CheckPolicy(p) {
		r.Errorf(fieldPosition(r.file, root, strconv.Quote(problem.Path)), "rollout", "%s: %s", problem.Path,
			problem.Text)
	}
}

// rolloutChecker checks the RolloutPolicies of a repository together.
type rolloutChecker struct {
	*origin.Findings
	fs       fs.FS
	pools    map[string]*mcfgv1.MachineConfigPool
	policies []v1alpha1.RolloutPolicy
	objects  []Object // objects are the decoded objects, in the same order as the policies.
}

// addPool adds a pool. The standard pools get two more labels, because they have these labels on every cluster.
func (r *rolloutChecker) addPool(name string, labels map[string]string) {
	pool := &mcfgv1.MachineConfigPool{}
	pool.Name, pool.Labels = name, map[string]string{}
	if slices.Contains(standardPools, name) {
		pool.Labels["pools.operator.machineconfiguration.openshift.io/"+name] = ""
		pool.Labels["machineconfiguration.openshift.io/mco-built-in"] = ""
	}
	maps.Copy(pool.Labels, labels)
	r.pools[name] = pool
}

func (r *rolloutChecker) warnUnknownPools(o Object, field string, names []string) {
	for i, name := range names {
		if r.pools[name] == nil {
			at := fmt.Sprintf("%s[%d]", field, i)
			r.Warnf(o.Position(r.fs, at), "rollout", "%s: this repository has no pool %q; there are %s", at, name,
				strings.Join(slices.Sorted(maps.Keys(r.pools)), ", "))
		}
	}
}

// warnNoPool warns of a RolloutPolicy whose selector matches no pool of the repository.
func (r *rolloutChecker) warnNoPool(o Object, by *metav1.LabelSelector) {
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
	r.Warnf(o.Position(r.fs, field), "rollout", "%s: no pool of this repository has these labels; add them to a "+
		"MachineConfigPool in %s/, or list pools in spec.pools", field, Dir)
}

// warnUnusedJobs warns of gates with a Job in policies whose pools have no steps, because a Job runs at the end of a
// step.
func (r *rolloutChecker) warnUnusedJobs() {
	for i, p := range r.policies {
		at := slices.IndexFunc(p.Spec.Gates, func(g v1alpha1.HealthGate) bool { return g.Job != nil })
		if at < 0 || p.Spec.Canary != nil || len(p.Spec.Batches) > 0 {
			continue
		}
		selected, steps := false, false
		for _, pool := range r.pools {
			mine, err := schedule.PaceFor(pool, r.policies[i:i+1])
			if err != nil || len(mine.Policies) == 0 {
				continue
			}
			selected = true
			all, err := schedule.PaceFor(pool, r.policies)
			steps = steps || err != nil || len(all.Steps) > 0
		}
		if selected && !steps {
			field := fmt.Sprintf("spec.gates[%d].job", at)
			r.Warnf(r.objects[i].Position(r.fs, field), "rollout", "%s: the job never runs: a job runs at the end of "+
				"a canary or a batch; add one of them", field)
		}
	}
}

// checkCycles refuses pools that wait for each other, because the controller would never update any of them.
func (r *rolloutChecker) checkCycles() {
	after := map[string][]string{}
	for name, pool := range r.pools {
		if p, err := schedule.PaceFor(pool, r.policies); err == nil {
			after[name] = p.After
		}
	}
	cycle := schedule.Cycle(after)
	if cycle == nil {
		return
	}
	for i, p := range r.policies {
		at := slices.Index(p.Spec.After, cycle[1%len(cycle)])
		if at < 0 {
			continue
		}
		if mine, err := schedule.PaceFor(r.pools[cycle[0]], r.policies[i:i+1]); err != nil || len(mine.Policies) == 0 {
			continue
		}
		field := fmt.Sprintf("spec.after[%d]", at)
		r.Errorf(r.objects[i].Position(r.fs, field), "rollout", "%s: pools wait for each other, and none would ever "+
			"be rolled out: %s; remove one of these from after", field, strings.Join(append(cycle, cycle[0]),
			" after "))
		return
	}
}
