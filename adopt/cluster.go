package adopt

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/policy/pace"
)

// keeper puts objects of the cluster into cluster/.
type keeper struct{ *adoption }

// pool keeps a MachineConfigPool, but for what the cluster writes in it.
func (a keeper) pool(i int) {
	o := a.objects[i]
	var p mcfgv1.MachineConfigPool
	err := strictly(o, &p)
	if err == nil {
		err = errors.Join(selects("machineConfigSelector", p.Spec.MachineConfigSelector), selects("nodeSelector", p.Spec.NodeSelector))
	}
	if bad := validation.IsDNS1123Label(o.name); err == nil && len(bad) > 0 {
		err = fmt.Errorf("%q is no name for a pool: use lower-case letters, digits and -", o.name)
	}
	switch {
	case err != nil:
		a.setAside(i, err.Error())
		return
	case a.opts.Pools != nil && !slices.Contains(a.opts.Pools, o.name):
		a.skip(i, "other-pool", "only the pools %s are asked for", strings.Join(a.opts.Pools, ", "))
		return
	case p.Spec.Paused:
		a.find(i, true, "paused", "the pool is paused; the repository does not say so, as pausing is the cluster's affair: it stays as it is there")
	}
	a.pools[o.name] = p
	spec, _ := o.content["spec"].(map[string]any)
	a.keep(i, a.free(clusterDir, o.name, ".yaml"), without(spec, "configuration", "paused"))
}

// policy keeps the MachineConfiguration, which says what a change costs a node.
func (a keeper) policy(i int) {
	o := a.objects[i]
	var mc operatorv1.MachineConfiguration
	err := strictly(o, &mc)
	if err == nil && o.name != "cluster" {
		err = fmt.Errorf("a MachineConfiguration is named cluster, and this one %q", o.name)
	}
	if err == nil {
		_, err = policy.FromSpec(mc.Spec.NodeDisruptionPolicy)
	}
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	spec, _ := o.content["spec"].(map[string]any)
	a.keep(i, a.free(clusterDir, "disruption", ".yaml"), spec)
}

// drift keeps a DriftPolicy.
func (a keeper) drift(i int) {
	o := a.objects[i]
	if err := strictly(o, &v1alpha1.DriftPolicy{}); err != nil {
		a.setAside(i, err.Error())
		return
	}
	spec, _ := o.content["spec"].(map[string]any)
	a.keep(i, a.free(clusterDir, "drift-"+o.name, ".yaml"), spec)
}

// rollout keeps a RolloutPolicy that a commit could have.
func (a keeper) rollout(i int) {
	o := a.objects[i]
	var p v1alpha1.RolloutPolicy
	if err := strictly(o, &p); err != nil {
		a.setAside(i, err.Error())
		return
	}
	if problems := pace.Check(&p); len(problems) > 0 {
		a.setAside(i, problems[0].Path+": "+problems[0].Text)
		return
	}
	spec, _ := o.content["spec"].(map[string]any)
	a.keep(i, a.free(clusterDir, "rollout-"+o.name, ".yaml"), spec)
}

// keep writes an object of the cluster with its name, its labels and annotations that people set, and its spec.
func (a keeper) keep(i int, file string, spec map[string]any) {
	o := a.objects[i]
	meta := map[string]any{"name": o.name}
	old, _ := o.content["metadata"].(map[string]any)
	for _, k := range []string{"labels", "annotations"} {
		if set, _ := old[k].(map[string]any); len(set) > 0 {
			if kept := people(set); len(kept) > 0 {
				meta[k] = kept
			}
		}
	}
	root := mapping(key("apiVersion"), key(o.apiVersion), key("kind"), key(o.kind), key("metadata"), verbatim(meta), key("spec"), verbatim(spec))
	body, err := encode(root)
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	a.out.Files[file] = bytes.Join([][]byte{comment("Imported from the cluster, without what the cluster itself writes."), body}, nil)
	a.out.Objects[i].Files = []string{file}
}

// people are the labels or annotations that people set: not those that tools keep their notes in.
func people(set map[string]any) map[string]any {
	out := maps.Clone(set)
	maps.DeleteFunc(out, func(k string, _ any) bool {
		return strings.HasPrefix(k, "kubectl.kubernetes.io/") || strings.HasPrefix(k, "bunsen.dev/")
	})
	return out
}

func without(v map[string]any, keys ...string) map[string]any {
	out := maps.Clone(v)
	maps.DeleteFunc(out, func(k string, _ any) bool { return slices.Contains(keys, k) })
	return out
}

// strictly reads an object into its type, and refuses fields that the type does not have: nobody could apply it.
func strictly(o object, into any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.content, into, true)
	if err != nil {
		return fmt.Errorf("it is not a %s as this version knows it: %w", o.kind, err)
	}
	return nil
}

// selects judges a selector: none and an empty one mean nothing.
func selects(name string, s *metav1.LabelSelector) error {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return fmt.Errorf("spec.%s selects nothing; name labels", name)
	}
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		return fmt.Errorf("spec.%s: %w", name, err)
	}
	return nil
}
