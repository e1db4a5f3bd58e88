package gitsource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/kube"
	reconcilepools "github.com/bunsen-os/bunsen/reconcile/pools"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/transpile"
)

func listPools(ctx context.Context, c client.Reader) ([]mcfgv1.MachineConfigPool, error) {
	var list mcfgv1.MachineConfigPoolList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	return list.Items, nil
}

// missingPools returns a warning for each directory below pools/ without a MachineConfigPool.
func missingPools(res transpile.Result, pools []mcfgv1.MachineConfigPool) error {
	have := map[string]bool{}
	for _, name := range reconcilepools.StandardNames() {
		have[name] = true
	}
	for i := range pools {
		have[pools[i].Name] = true
	}
	for _, o := range res.Cluster {
		if o.Object.GetKind() == "MachineConfigPool" {
			have[o.Object.GetName()] = true
		}
	}
	var errs []error
	for _, p := range res.Pools {
		if !have[p] {
			errs = append(errs, fmt.Errorf("pools/%s: there is no MachineConfigPool %q on the cluster or in "+
				"cluster/; add cluster/%s.yaml with one, or rename the directory", p, p, p))
		}
	}
	return errors.Join(errs...)
}

// renderProblems lists the pools that cannot be rendered. The status of the GitSource shows these pools, because the
// author of a commit reads this status first.
func renderProblems(pools []mcfgv1.MachineConfigPool) []string {
	var out []string
	for i := range pools {
		for _, c := range pools[i].Status.Conditions {
			if c.Type == mcfgv1.MachineConfigPoolRenderDegraded && c.Status == corev1.ConditionTrue {
				out = append(out, fmt.Sprintf("pool %s keeps its old config: %s", pools[i].Name, c.Message))
			}
		}
	}
	return out
}

// renderedUnder returns the rendered config of each pool that was rendered at the revision.
func renderedUnder(at string, pools []mcfgv1.MachineConfigPool) map[string]string {
	out := map[string]string{}
	for i := range pools {
		if p := &pools[i]; at != "" && p.Annotations[v1alpha1.RevisionAnnotation] == at &&
			p.Spec.Configuration.Name != "" {
			// An invalid record counts as no record.
			target, _ := v1alpha1.ParsePoolTarget(p.Annotations[v1alpha1.TargetAnnotation])
			if given := revision.GivenBy(target, at, p.Spec.Configuration.Name); given != "" {
				out[p.Name] = given
			}
		}
	}
	return out
}

// notRenderedUnder returns the reason for each pool that could not be rendered at the revision.
func notRenderedUnder(revision string, pools []mcfgv1.MachineConfigPool) map[string]string {
	out := map[string]string{}
	for i := range pools {
		p := &pools[i]
		why := kube.ConditionMessage(p, mcfgv1.MachineConfigPoolRenderDegraded)
		if why != "" && revision != "" && p.Annotations[v1alpha1.NotRenderedAnnotation] == revision {
			out[p.Name] = v1alpha1.RenderProblem(p.Name, why)
		}
	}
	return out
}

// heldElsewhere returns the pools that users hold at another revision, by name.
func heldElsewhere(revision string, pools []mcfgv1.MachineConfigPool) []string {
	var out []string
	for i := range pools {
		if p := &pools[i]; p.Annotations[v1alpha1.HoldAnnotation] != "" &&
			p.Annotations[v1alpha1.HeldRevisionAnnotation] != revision {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}
