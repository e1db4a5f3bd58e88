package repository

import (
	"context"
	"fmt"
	"maps"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
	"github.com/bunsen-os/bunsen/reconcile/revision"
	"github.com/bunsen-os/bunsen/transpile"
)

// The kinds that the cluster/ directory of a repository may contain.
var (
	poolKind       = mcfgv1.GroupVersion.WithKind("MachineConfigPool")
	rulesKind      = operatorv1.GroupVersion.WithKind("MachineConfiguration")
	rolloutPolicy  = v1alpha1.GroupVersion.WithKind("RolloutPolicy")
	driftPolicy    = v1alpha1.GroupVersion.WithKind("DriftPolicy")
	imageSet       = mcfgv1.GroupVersion.WithKind("PinnedImageSet")
	writtenByOther = [][]string{{"status"}, {"spec", "configuration"}, {"spec", "paused"}}
)

func (r *clusterState) readPolicies(ctx context.Context, c client.Reader) error {
	for _, kind := range []schema.GroupVersionKind{rolloutPolicy, driftPolicy, imageSet} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
			return kube.ReadError(kind.Kind+" objects", err)
		}
		for i := range list.Items {
			r.policies = append(r.policies, &list.Items[i])
		}
	}
	return nil
}

// objects returns the cluster's objects that the compared repository created or that head also has, as a repository has
// them: without fields that neither of them sets, such as defaults of the API server.
func (r clusterState) objects(head []transpile.ClusterObject) (out []transpile.ClusterObject, err error) {
	of := map[string]transpile.ClusterObject{}
	for _, o := range head {
		of[o.Object.GetKind()+" "+o.Object.GetName()] = o
	}
	add := func(kind schema.GroupVersionKind, o client.Object) error {
		ours, has := of[kind.Kind+" "+o.GetName()]
		switch {
		case !has && !r.isFromSource(o):
			return nil
		case has && o.GetAnnotations()[v1alpha1.DigestAnnotation] == ours.Digest:
			out = append(out, ours)
			return nil
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return fmt.Errorf("reading %s %s: %w", kind.Kind, o.GetName(), err)
		}
		live := &unstructured.Unstructured{Object: content}
		live.SetGroupVersionKind(kind)
		wanted, err := wantedOf(live)
		if err != nil {
			return err
		}
		if wanted != nil && new(revision.Digests).OfObject(live) != "" {
			live = wanted // As the repository wrote it, so that 90m is no change to 1h30m0s.
		}
		for _, field := range writtenByOther {
			unstructured.RemoveNestedField(live.Object, field...)
		}
		keepFields(live, wanted, ours.Object)
		live.SetLabels(userEntries(live.GetLabels()))
		live.SetAnnotations(userEntries(live.GetAnnotations()))
		out = append(out, transpile.ClusterObject{Object: live, File: "the cluster"})
		return nil
	}
	for i := range r.pools {
		if err := add(poolKind, &r.pools[i]); err != nil {
			return nil, err
		}
	}
	if r.disruption != nil {
		if err := add(rulesKind, r.disruption); err != nil {
			return nil, err
		}
	}
	for _, p := range r.policies {
		if err := add(p.GroupVersionKind(), p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// wantedOf returns what the repository required of a live object when it was applied last; nil if no source applied it.
func wantedOf(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if live.GetAnnotations()[v1alpha1.WantedAnnotation] == "" {
		return nil, nil
	}
	return revision.WantedObject(live)
}

// keepFields removes the fields of a spec that neither of two others has. Applying those leaves the fields as they are.
func keepFields(live, wanted, head *unstructured.Unstructured) {
	spec, isMap := live.Object["spec"].(map[string]any)
	if !isMap {
		return
	}
	of := func(o *unstructured.Unstructured) map[string]any {
		if o == nil {
			return nil
		}
		fields, _ := o.Object["spec"].(map[string]any)
		return fields
	}
	before, after := of(wanted), of(head)
	maps.DeleteFunc(spec, func(field string, _ any) bool {
		_, was := before[field]
		_, is := after[field]
		return !was && !is
	})
}

func userEntries(entries map[string]string) map[string]string {
	out := maps.Clone(entries)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return strings.HasPrefix(key, "bunsen.dev/") && key != disruption.InPlaceAnnotation ||
			strings.HasPrefix(key, "kubectl.kubernetes.io/")
	})
	return out
}

func (r clusterState) marks() (review.Marks, error) {
	out := review.Marks{}
	for i := range r.pools {
		if err := out.Add(poolKind.Kind, r.pools[i].Name, r.pools[i].Annotations); err != nil {
			return nil, err
		}
	}
	if r.disruption == nil {
		return out, nil
	}
	return out, out.Add(rulesKind.Kind, r.disruption.Name, r.disruption.Annotations)
}
