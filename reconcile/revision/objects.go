package revision

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bunsen-os/bunsen/api/pinnedimage"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kinds are the kinds that a repository's cluster/ may contain.
var Kinds = map[string]schema.GroupVersionKind{
	KindMachineConfigPool:    mcfgv1.GroupVersion.WithKind(KindMachineConfigPool),
	KindMachineConfiguration: operatorv1.GroupVersion.WithKind(KindMachineConfiguration),
	KindDriftPolicy:          v1alpha1.GroupVersion.WithKind(KindDriftPolicy),
	KindPinnedImageSet:       mcfgv1.GroupVersion.WithKind(KindPinnedImageSet),
	KindRolloutPolicy:        v1alpha1.GroupVersion.WithKind(KindRolloutPolicy),
}

// Objects are those of the kinds that a repository may contain, of all owners, shared with the cache: do not change
// them.
type Objects struct {
	Configs []mcfgv1.MachineConfig
	// MachineConfigs
	ByName map[string]*mcfgv1.MachineConfig
	// of the other kinds, by Key
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
	for _, of := range []struct {
		kind, plural string
		list         client.ObjectList
	}{
		{KindMachineConfigPool, "MachineConfigPools", &mcfgv1.MachineConfigPoolList{}},
		{KindMachineConfiguration, "MachineConfigurations", &operatorv1.MachineConfigurationList{}},
		{KindDriftPolicy, "DriftPolicies", &v1alpha1.DriftPolicyList{}},
		{KindRolloutPolicy, "RolloutPolicies", &v1alpha1.RolloutPolicyList{}},
		{KindPinnedImageSet, "PinnedImageSets", &mcfgv1.PinnedImageSetList{}},
	} {
		err := c.List(ctx, of.list, client.UnsafeDisableDeepCopy)
		if err == nil {
			err = meta.EachListItem(of.list, func(item runtime.Object) error {
				o := item.(client.Object)
				out.Cluster[Key(of.kind, o.GetName())] = o
				return nil
			})
		}
		if err != nil {
			return out, fmt.Errorf("listing %s: %w", of.plural, err)
		}
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

// ObjectDigest returns the digest of the fields that the repository requires of a live object; "" if it lacks any.
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

// WantedObject returns the fields that the repository requires of a live object, which must have all of them.
func WantedObject(o client.Object) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(o.GetAnnotations()[v1alpha1.WantedAnnotation])); err != nil {
		return nil, fmt.Errorf("reading annotation %s of %q: %w", v1alpha1.WantedAnnotation, o.GetName(), err)
	}
	return u, nil
}

// Revisions has the sources and their objects on the cluster, on which it depends whether a pool may be rendered or
// rolled out.
type Revisions struct {
	Objects
	Sources []v1alpha1.GitSource
	States  []State
}

// Selected returns the MachineConfigs from which a pool's config is rendered.
func (r Revisions) Selected(pool *mcfgv1.MachineConfigPool) ([]*mcfgv1.MachineConfig, error) {
	selector, err := Selector(pool)
	if err != nil {
		return nil, err
	}
	return Select(selector, r.Configs), nil
}

// Settled reads Revisions for a pool, and why it must not be rendered or rolled out; empty if it may be. While one of
// its sources is being applied, no objects are read: a commit of thousands sends as many events, each of which asks
// about every pool, and reading all objects for each would cost more than writing them.
func Settled(ctx context.Context, c client.Reader, pool *mcfgv1.MachineConfigPool,
	seen *Digests,
) (Revisions, string, error) {
	sources, err := readSources(ctx, c)
	if err != nil {
		return Revisions{}, "", err
	}
	if why, err := Applying(pool, sources); err != nil || why != "" {
		return Revisions{}, why, err
	}
	all, err := readRevisions(ctx, c, seen)
	if err != nil {
		return all, "", err
	}
	why, err := Unsettled(pool, all.States)
	return all, why, err
}

// readRevisions reads the manager's cache, whose parts may be of different ages. A pool waits until the objects of each
// of its sources belong to one whole revision, maybe an old one.
func readRevisions(ctx context.Context, c client.Reader, seen *Digests) (Revisions, error) {
	live, err := ReadState(ctx, c)
	if err != nil {
		return Revisions{}, err
	}
	out := Revisions{Objects: live}
	if out.Sources, err = readSources(ctx, c); err != nil {
		return out, err
	}
	for i := range out.Sources {
		owned, err := live.Owned(out.Sources[i].Name, seen)
		if err != nil {
			return out, err
		}
		out.States = append(out.States, State{Source: &out.Sources[i], Live: owned})
	}
	return out, nil
}

// readSources: do not change them.
func readSources(ctx context.Context, c client.Reader) ([]v1alpha1.GitSource, error) {
	var sources v1alpha1.GitSourceList
	if err := c.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing GitSources: %w", err)
	}
	return sources.Items, nil
}

// reportUnsettledAfter is how long a pool waits for a whole revision before its status says so. A normal apply takes
// less.
const reportUnsettledAfter = 10 * time.Second

// PoolCheck decides whether a pool may be rolled out: for each source, the cluster must have the objects of one whole
// revision, and the pool must be rendered from them. The zero value is ready for use. If it is lost, a message is
// delayed.
type PoolCheck struct {
	seen Digests
	// what each pool waits for, and since when: pool name → wait
	since sync.Map
	// at the last check: pool name → ImageSets
	images sync.Map
}

// ImageSets are the PinnedImageSets of a pool.
type ImageSets struct {
	// of pinnedimage.Digest; empty for no sets
	Digest string
	// the sets, and those that the pool names and that do not exist; both sorted
	Names, Missing []string
}

func imageSets(pool *mcfgv1.MachineConfigPool, all []mcfgv1.PinnedImageSet) ImageSets {
	sets, missing := pinnedimage.Of(pool, all)
	out := ImageSets{Digest: pinnedimage.Digest(sets), Missing: missing}
	for _, s := range sets {
		out.Names = append(out.Names, s.Name)
	}
	return out
}

// ImageSets returns the PinnedImageSets of a pool at its last check; the zero value before the first one.
func (s *PoolCheck) ImageSets(pool string) ImageSets {
	sets, _ := s.images.Load(pool)
	is, _ := sets.(ImageSets)
	return is
}

// Forget removes the data of a deleted pool.
func (s *PoolCheck) Forget(pool string) {
	s.since.Delete(pool)
	s.images.Delete(pool)
}

// Blocker returns why a pool waits, or is empty. If the pool has changed since it was read, Fleet.decide returns
// poolChanged.
func (s *PoolCheck) Blocker(ctx context.Context, c client.Reader, pool *mcfgv1.MachineConfigPool) (string, error) {
	var images mcfgv1.PinnedImageSetList
	if err := c.List(ctx, &images, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing PinnedImageSets: %w", err)
	}
	s.images.Store(pool.Name, imageSets(pool, images.Items))
	all, why, err := Settled(ctx, c, pool, &s.seen)
	if err != nil || why != "" {
		return why, err
	}
	if why := Moving(all.States); why != "" {
		return why, nil
	}
	selected, err := all.Selected(pool)
	if err != nil {
		return "", err
	}
	digest, err := s.seen.Selected(selected)
	if err != nil {
		return "", err
	}
	if digest != pool.Annotations[v1alpha1.SelectedAnnotation] {
		return "its MachineConfigs have changed, and are not rendered yet", nil
	}
	s.since.Delete(pool.Name)
	return "", nil
}

// wait is what for, and since when.
type wait struct {
	why   string
	since time.Time
}

// IsOverdue reports whether a pool has waited for the same thing for so long that its status says so. A large revision
// is applied for many seconds, and only then rendered, so each of the two has its own time.
func (s *PoolCheck) IsOverdue(pool, why string, now time.Time) bool {
	before, known := s.since.Load(pool)
	if known && before.(wait).why == why {
		return now.Sub(before.(wait).since) >= reportUnsettledAfter
	}
	s.since.Store(pool, wait{why, now})
	return false
}
