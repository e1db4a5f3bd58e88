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

	"github.com/bunsen-os/bunsen/api/pinnedimage"
	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/schedule"
)

// addPool imports a MachineConfigPool without the fields that the cluster writes. The original writes
// spec.pinnedImageSets from the labels of the sets.
func addPool(a *adoption, i int) {
	o := a.objects[i]
	var p mcfgv1.MachineConfigPool
	err := strictly(o, &p)
	if err == nil {
		err = errors.Join(checkSelector("machineConfigSelector", p.Spec.MachineConfigSelector),
			checkSelector("nodeSelector", p.Spec.NodeSelector))
	}
	if bad := validation.IsDNS1123Label(o.name); err == nil && len(bad) > 0 {
		err = fmt.Errorf("%q is no name for a pool: use lower-case letters, digits and -", o.name)
	}
	switch {
	case err != nil:
		a.setAside(i, err.Error())
		return
	case a.opts.Pools != nil && !slices.Contains(a.opts.Pools, o.name):
		a.skip(i, "other-pool", "--pool selects only %s", strings.Join(a.opts.Pools, ", "))
		return
	case p.Spec.Paused:
		a.warn(i, "paused", "the pool is paused; the repository does not say so, as pausing is the cluster's affair: "+
			"it stays as it is there")
	}
	a.pools[o.name] = p
	spec, _ := o.content["spec"].(map[string]any)
	addClusterObject(a, i, a.freePath(clusterDir, o.name, ".yaml"), without(spec, "configuration", "paused",
		"pinnedImageSets"))
}

// addDisruptionPolicy imports the MachineConfiguration, which sets the disruption of each change.
func addDisruptionPolicy(a *adoption, i int) {
	o := a.objects[i]
	var mc operatorv1.MachineConfiguration
	err := strictly(o, &mc)
	if err == nil && o.name != "cluster" {
		err = fmt.Errorf("a MachineConfiguration is named cluster, and this one %q", o.name)
	}
	if err == nil {
		_, err = disruption.FromSpec(mc.Spec.NodeDisruptionPolicy)
	}
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	spec, _ := o.content["spec"].(map[string]any)
	addClusterObject(a, i, a.freePath(clusterDir, "disruption", ".yaml"), spec)
}

// addDriftPolicy imports a DriftPolicy.
func addDriftPolicy(a *adoption, i int) {
	addChecked(a, i, "drift-", strictly(a.objects[i], &v1alpha1.DriftPolicy{}))
}

// addRolloutPolicy imports a RolloutPolicy that is valid in a repository.
func addRolloutPolicy(a *adoption, i int) {
	var p v1alpha1.RolloutPolicy
	err := strictly(a.objects[i], &p)
	if problems := schedule.CheckPolicy(&p); err == nil && len(problems) > 0 {
		err = errors.New(problems[0].Path + ": " + problems[0].Text)
	}
	addChecked(a, i, "rollout-", err)
}

// addImageSet imports a PinnedImageSet whose images are valid in a repository.
func addImageSet(a *adoption, i int) {
	var s mcfgv1.PinnedImageSet
	err := strictly(a.objects[i], &s)
	for n, image := range s.Spec.PinnedImages {
		if problem := pinnedimage.Problem(string(image.Name)); err == nil && problem != "" {
			err = fmt.Errorf("spec.pinnedImages[%d].name: %s", n, problem)
		}
	}
	addChecked(a, i, "images-", err)
}

// addChecked imports an object of the cluster with its whole spec, or sets it aside with the error of its check.
func addChecked(a *adoption, i int, prefix string, err error) {
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	spec, _ := a.objects[i].content["spec"].(map[string]any)
	addClusterObject(a, i, a.freePath(clusterDir, prefix+a.objects[i].name, ".yaml"), spec)
}

// addClusterObject writes an object of the cluster with its name, the user's labels and annotations, and its spec.
func addClusterObject(a *adoption, i int, file string, spec map[string]any) {
	o := a.objects[i]
	meta := map[string]any{"name": o.name}
	old, _ := o.content["metadata"].(map[string]any)
	for _, k := range []string{"labels", "annotations"} {
		if set, _ := old[k].(map[string]any); len(set) > 0 {
			if kept := userMetadata(set); len(kept) > 0 {
				meta[k] = kept
			}
		}
	}
	root := Mapping(Key("apiVersion"), Key(o.apiVersion), Key("kind"), Key(o.kind),
		Key("metadata"), Verbatim(meta), Key("spec"), Verbatim(spec))
	body, err := Encode(root)
	if err != nil {
		a.setAside(i, err.Error())
		return
	}
	a.out.Files[file] = bytes.Join(
		[][]byte{Comment("Imported from the cluster, without what the cluster itself writes."), body}, nil)
	a.out.Objects[i].Files = []string{file}
}

// userMetadata returns the labels or annotations that users set, without those that tools write.
func userMetadata(set map[string]any) map[string]any {
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

// strictly decodes an object into its type. strictly returns an error for unknown fields, because the API server would
// refuse the object.
func strictly(o object, into any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.content, into, true)
	if err != nil {
		return fmt.Errorf("it is not a %s as this version knows it: %w", o.kind, err)
	}
	return nil
}

// checkSelector returns an error for a selector that selects nothing: a missing or an empty one.
func checkSelector(name string, s *metav1.LabelSelector) error {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return fmt.Errorf("spec.%s selects nothing; name labels", name)
	}
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		return fmt.Errorf("spec.%s: %w", name, err)
	}
	return nil
}
