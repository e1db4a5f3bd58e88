package controller

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
	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// clusterKinds are the kinds that a repository's cluster/ may hold.
var clusterKinds = map[string]schema.GroupVersionKind{
	revision.KindMachineConfigPool:    mcfgv1.GroupVersion.WithKind(revision.KindMachineConfigPool),
	revision.KindMachineConfiguration: operatorv1.GroupVersion.WithKind(revision.KindMachineConfiguration),
	revision.KindDriftPolicy:          v1alpha1.GroupVersion.WithKind(revision.KindDriftPolicy),
	revision.KindRolloutPolicy:        v1alpha1.GroupVersion.WithKind(revision.KindRolloutPolicy),
}

// liveObjects are the objects of the kinds that a repository may hold, whoever owns them. They are shared with the cache
// that they were read from, and never written to.
type liveObjects struct {
	configs []mcfgv1.MachineConfig
	// byName finds a MachineConfig.
	byName map[string]*mcfgv1.MachineConfig
	// cluster holds the others by revision.Key.
	cluster map[string]client.Object
}

// readLive reads all of them.
func readLive(ctx context.Context, c client.Reader) (liveObjects, error) {
	out := liveObjects{byName: map[string]*mcfgv1.MachineConfig{}, cluster: map[string]client.Object{}}
	var configs mcfgv1.MachineConfigList
	if err := c.List(ctx, &configs, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing MachineConfigs: %w", err)
	}
	out.configs = configs.Items
	for i := range out.configs {
		out.byName[out.configs[i].Name] = &out.configs[i]
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := c.List(ctx, &pools, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	for i := range pools.Items {
		out.cluster[revision.Key(revision.KindMachineConfigPool, pools.Items[i].Name)] = &pools.Items[i]
	}
	var rules operatorv1.MachineConfigurationList
	if err := c.List(ctx, &rules, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing MachineConfigurations: %w", err)
	}
	for i := range rules.Items {
		out.cluster[revision.Key(revision.KindMachineConfiguration, rules.Items[i].Name)] = &rules.Items[i]
	}
	var drifts v1alpha1.DriftPolicyList
	if err := c.List(ctx, &drifts, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing DriftPolicies: %w", err)
	}
	for i := range drifts.Items {
		out.cluster[revision.Key(revision.KindDriftPolicy, drifts.Items[i].Name)] = &drifts.Items[i]
	}
	var rollouts v1alpha1.RolloutPolicyList
	if err := c.List(ctx, &rollouts, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing RolloutPolicies: %w", err)
	}
	for i := range rollouts.Items {
		out.cluster[revision.Key(revision.KindRolloutPolicy, rollouts.Items[i].Name)] = &rollouts.Items[i]
	}
	return out, nil
}

// hasAll reports whether all objects of an inventory are there, whatever they hold.
func (l liveObjects) hasAll(inventory []v1alpha1.InventoryEntry) bool {
	return !slices.ContainsFunc(inventory, func(e v1alpha1.InventoryEntry) bool {
		return l.byName[e.Name] == nil && l.cluster[revision.Key(e.Kind, e.Name)] == nil
	})
}

// owned lists the objects of one source as an inventory does.
func (l liveObjects) owned(source string, seen *revision.Digests) ([]v1alpha1.InventoryEntry, error) {
	var out []v1alpha1.InventoryEntry
	for i := range l.configs {
		mc := &l.configs[i]
		if mc.Labels[v1alpha1.SourceLabel] != source {
			continue
		}
		e, err := seen.Entry(mc)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	for key, o := range l.cluster {
		if o.GetLabels()[v1alpha1.SourceLabel] != source {
			continue
		}
		kind, name := revision.SplitKey(key)
		digest, err := inForce(o, kind, seen)
		if err != nil {
			return nil, err
		}
		out = append(out, v1alpha1.InventoryEntry{Kind: kind, Name: name, Digest: digest})
	}
	revision.SortInventory(out)
	return out, nil
}

// inForce is the digest of what the repository wants of a live object, where the object has all of it; else empty.
func inForce(o client.Object, kind string, seen *revision.Digests) (string, error) {
	if digest, known := seen.Known(o.GetUID(), o.GetResourceVersion()); known {
		return digest, nil
	}
	u, err := asUnstructured(o, kind)
	if err != nil {
		return "", err
	}
	return seen.OfObject(u), nil
}

func asUnstructured(o client.Object, kind string) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("reading %s %q: %w", kind, o.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(clusterKinds[kind])
	return u, nil
}

// wanted is what the repository wants of a live object that is in force.
func wanted(o client.Object) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(o.GetAnnotations()[v1alpha1.WantedAnnotation])); err != nil {
		return nil, fmt.Errorf("reading annotation %s of %q: %w", v1alpha1.WantedAnnotation, o.GetName(), err)
	}
	return u, nil
}

// revisions is what decides whether a pool may be rendered or rolled out: the sources, and what the cluster has of them.
type revisions struct {
	liveObjects
	sources []v1alpha1.GitSource
	states  []revision.State
}

// readRevisions reads it from the manager's cache. The parts may be of different ages: a pool waits unless what was read is
// one whole revision of each source that feeds it, whenever that was.
func readRevisions(ctx context.Context, c client.Reader, seen *revision.Digests) (revisions, error) {
	live, err := readLive(ctx, c)
	if err != nil {
		return revisions{}, err
	}
	out := revisions{liveObjects: live}
	var sources v1alpha1.GitSourceList
	if err := c.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing GitSources: %w", err)
	}
	out.sources = sources.Items
	for i := range out.sources {
		owned, err := live.owned(out.sources[i].Name, seen)
		if err != nil {
			return out, err
		}
		out.states = append(out.states, revision.State{Source: &out.sources[i], Live: owned})
	}
	return out, nil
}

// selected are the MachineConfigs that a pool's config is rendered from.
func (r revisions) selected(pool *mcfgv1.MachineConfigPool) ([]*mcfgv1.MachineConfig, error) {
	selector, err := revision.Selector(pool)
	if err != nil {
		return nil, err
	}
	return revision.Select(selector, r.configs), nil
}
