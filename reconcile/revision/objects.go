package revision

import (
	"context"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Kinds are the kinds that a repository's cluster/ may contain.
var Kinds = map[string]schema.GroupVersionKind{
	KindMachineConfigPool:    mcfgv1.GroupVersion.WithKind(KindMachineConfigPool),
	KindMachineConfiguration: operatorv1.GroupVersion.WithKind(KindMachineConfiguration),
	KindDriftPolicy:          v1alpha1.GroupVersion.WithKind(KindDriftPolicy),
	KindPinnedImageSet:       mcfgv1.GroupVersion.WithKind(KindPinnedImageSet),
	KindRolloutPolicy:        v1alpha1.GroupVersion.WithKind(KindRolloutPolicy),
}

// Objects are the objects of the kinds that a repository may contain, of all owners. The objects are shared with the
// cache, so callers must not change them.
type Objects struct {
	Configs []mcfgv1.MachineConfig
	// ByName has the MachineConfigs by name.
	ByName map[string]*mcfgv1.MachineConfig
	// Cluster has the objects of the other kinds by Key.
	Cluster map[string]client.Object
}

// ReadState reads all objects of the kinds that a repository may contain.
func ReadState(ctx context.Context, c client.Reader) (Objects, error) {
	out := Objects{ByName: map[string]*mcfgv1.MachineConfig{}, Cluster: map[string]client.Object{}}
	var configs mcfgv1.MachineConfigList
	if err := c.List(ctx, &configs, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing MachineConfigs: %w", err)
	}
	out.Configs = configs.Items
	for i := range out.Configs {
		out.ByName[out.Configs[i].Name] = &out.Configs[i]
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := c.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	for i := range pools.Items {
		out.Cluster[Key(KindMachineConfigPool, pools.Items[i].Name)] = &pools.Items[i]
	}
	var rules operatorv1.MachineConfigurationList
	if err := c.List(ctx, &rules, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing MachineConfigurations: %w", err)
	}
	for i := range rules.Items {
		out.Cluster[Key(KindMachineConfiguration, rules.Items[i].Name)] = &rules.Items[i]
	}
	var drifts v1alpha1.DriftPolicyList
	if err := c.List(ctx, &drifts, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing DriftPolicies: %w", err)
	}
	for i := range drifts.Items {
		out.Cluster[Key(KindDriftPolicy, drifts.Items[i].Name)] = &drifts.Items[i]
	}
	var rollouts v1alpha1.RolloutPolicyList
	if err := c.List(ctx, &rollouts, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing RolloutPolicies: %w", err)
	}
	for i := range rollouts.Items {
		out.Cluster[Key(KindRolloutPolicy, rollouts.Items[i].Name)] = &rollouts.Items[i]
	}
	var images mcfgv1.PinnedImageSetList
	if err := c.List(ctx, &images, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing PinnedImageSets: %w", err)
	}
	for i := range images.Items {
		out.Cluster[Key(KindPinnedImageSet, images.Items[i].Name)] = &images.Items[i]
	}
	return out, nil
}

// HasAll reports whether all objects of an inventory exist, in any state.
func (l Objects) HasAll(inventory []v1alpha1.InventoryEntry) bool {
	return !slices.ContainsFunc(inventory, func(e v1alpha1.InventoryEntry) bool {
		return l.ByName[e.Name] == nil && l.Cluster[Key(e.Kind, e.Name)] == nil
	})
}

// Owned lists the objects of one source in the form of an inventory.
func (l Objects) Owned(source string, seen *Digests) ([]v1alpha1.InventoryEntry, error) {
	var out []v1alpha1.InventoryEntry
	for i := range l.Configs {
		mc := &l.Configs[i]
		if mc.Labels[v1alpha1.SourceLabel] != source {
			continue
		}
		e, err := seen.Entry(mc)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	for key, o := range l.Cluster {
		if o.GetLabels()[v1alpha1.SourceLabel] != source {
			continue
		}
		kind, name := SplitKey(key)
		digest, err := ObjectDigest(o, kind, seen)
		if err != nil {
			return nil, err
		}
		out = append(out, v1alpha1.InventoryEntry{Kind: kind, Name: name, Digest: digest})
	}
	SortInventory(out)
	return out, nil
}

// ObjectDigest returns the digest of the fields that the repository requires of a live object. Digest returns "" if the
// object lacks any of these fields.
func ObjectDigest(o client.Object, kind string, seen *Digests) (string, error) {
	if digest, known := seen.Known(o.GetUID(), o.GetResourceVersion()); known {
		return digest, nil
	}
	u, err := Unstructured(o, kind)
	if err != nil {
		return "", err
	}
	return seen.OfObject(u), nil
}

// Unstructured converts a live object of a kind to its unstructured form.
func Unstructured(o client.Object, kind string) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("reading %s %q: %w", kind, o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(Kinds[kind])
	return u, nil
}

// WantedObject returns the fields that the repository requires of a live object. The object must have all of these
// fields.
func WantedObject(o client.Object) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(o.GetAnnotations()[v1alpha1.WantedAnnotation])); err != nil {
		return nil, fmt.Errorf("reading annotation %s of %q: %w", v1alpha1.WantedAnnotation, o.GetName(), err)
	}
	return u, nil
}

// Selected returns the MachineConfigs from which a pool's config is rendered.
func (r Revisions) Selected(pool *mcfgv1.MachineConfigPool) ([]*mcfgv1.MachineConfig, error) {
	selector, err := Selector(pool)
	if err != nil {
		return nil, err
	}
	return Select(selector, r.Configs), nil
}
