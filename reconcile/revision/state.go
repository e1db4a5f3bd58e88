package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// The kinds of the objects that an inventory lists.
const (
	KindMachineConfig        = "MachineConfig"
	KindMachineConfigPool    = "MachineConfigPool"
	KindMachineConfiguration = "MachineConfiguration"
	KindDriftPolicy          = "DriftPolicy"
	KindRolloutPolicy        = "RolloutPolicy"
	KindPinnedImageSet       = "PinnedImageSet"
)

// Digests computes the digests of live objects and caches them, so that unchanged ones are not read again. The zero
// value is ready for use. Without the cache, calls only take longer.
type Digests struct {
	configs sync.Map // uid → configDigest
	objects sync.Map // uid → objectDigest
}

// configDigest is for a generation of a MachineConfig, which has no status, so that it changes with the spec. The role
// is a label, and compared separately.
type configDigest struct {
	generation   int64
	role, digest string
}

// Of returns the digest of mc in the form of an inventory.
func (d *Digests) Of(mc *mcfgv1.MachineConfig) (string, error) {
	role := mc.Labels[v1alpha1.RoleLabel]
	if v, ok := d.configs.Load(mc.UID); ok && mc.UID != "" {
		if k := v.(configDigest); k.generation == mc.Generation && k.role == role {
			return k.digest, nil
		}
	}
	digest, err := Digest(mc)
	if err == nil && mc.UID != "" {
		d.configs.Store(mc.UID, configDigest{mc.Generation, role, digest})
	}
	return digest, err
}

// Entry returns the inventory entry of mc.
func (d *Digests) Entry(mc *mcfgv1.MachineConfig) (v1alpha1.InventoryEntry, error) {
	digest, err := d.Of(mc)
	return v1alpha1.InventoryEntry{
		Kind: KindMachineConfig, Name: mc.Name, Digest: digest,
		Role: mc.Labels[v1alpha1.RoleLabel],
	}, err
}

// Digest covers what a render depends on: the role and the spec, with sorted keys, because the API server returns the
// inline Ignition config in another order.
func Digest(mc *mcfgv1.MachineConfig) (string, error) {
	raw, err := json.Marshal(mc.Spec)
	if err != nil {
		return "", fmt.Errorf("digesting MachineConfig %q: %w", mc.Name, err)
	}
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return "", fmt.Errorf("digesting MachineConfig %q: %w", mc.Name, err)
	}
	for k, v := range spec {
		if v == nil {
			delete(spec, k)
		}
	}
	sorted, err := json.Marshal(map[string]any{"role": mc.Labels[v1alpha1.RoleLabel], "spec": spec})
	if err != nil {
		return "", fmt.Errorf("digesting MachineConfig %q: %w", mc.Name, err)
	}
	return digestOf(sorted), nil
}

// digestOf is the SHA-256 as in an inventory.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// State has the objects of one GitSource on the cluster.
type State struct {
	// as last read
	Source *v1alpha1.GitSource
	// with the source's label; a digest is empty if the object was changed after the source applied it
	Live []v1alpha1.InventoryEntry
}

// Difference returns the first object that differs from the inventory, as `Kind/name`, or is empty.
func Difference(inventory, live []v1alpha1.InventoryEntry) string {
	if all := Differences(inventory, live); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Differences returns all objects that differ from the inventory, in order.
func Differences(inventory, live []v1alpha1.InventoryEntry) []string {
	want := make(map[string]v1alpha1.InventoryEntry, len(inventory))
	for _, e := range inventory {
		want[Key(e.Kind, e.Name)] = e
	}
	var differ []string
	for _, e := range live {
		key := Key(e.Kind, e.Name)
		if w, ok := want[key]; !ok || w.Digest != e.Digest {
			differ = append(differ, key)
		}
		delete(want, key)
	}
	for key := range want {
		differ = append(differ, key)
	}
	slices.Sort(differ)
	return differ
}

// IsWhole reports whether the cluster has exactly the applied revision of the source, and no apply is under way.
func (s State) IsWhole() bool {
	return s.Source.Status.Applying == nil && Difference(s.Source.Status.Inventory, s.Live) == ""
}

// Unsettled returns why a pool must not be rendered or rolled out: the objects of one of its sources are not one whole
// revision; otherwise "". Sources without an effect on the pool do not count.
func Unsettled(pool *mcfgv1.MachineConfigPool, states []State) (string, error) {
	selector, err := Selector(pool)
	if err != nil {
		return "", err
	}
	for _, s := range states {
		if s.IsWhole() || !s.feeds(pool.Name, selector) {
			continue
		}
		if a := s.Source.Status.Applying; a != nil {
			return fmt.Sprintf("GitSource %s: %s is being applied", s.Source.Name, nameOf(a.Revision)), nil
		}
		kind, name := SplitKey(Difference(s.Source.Status.Inventory, s.Live))
		if s.Source.Status.AppliedRevision == "" {
			return fmt.Sprintf("GitSource %s: it has not applied a commit yet, and %s %s has its label",
				s.Source.Name, kind, name), nil
		}
		return fmt.Sprintf("GitSource %s: %s %s is not as %s has it", s.Source.Name, kind, name,
			nameOf(s.Source.Status.AppliedRevision)), nil
	}
	return "", nil
}

// Applying returns why a pool must not be rendered or rolled out if one of its sources is being applied; "" if none is.
// It needs no objects: they change with each write of the apply, and Unsettled says the same whatever they are.
func Applying(pool *mcfgv1.MachineConfigPool, sources []v1alpha1.GitSource) (string, error) {
	var states []State
	for i := range sources {
		if sources[i].Status.Applying != nil {
			states = append(states, State{Source: &sources[i]})
		}
	}
	return Unsettled(pool, states)
}

// Moving returns why no node may be assigned a config yet: a MachineConfigPool differs from the revision of its source,
// and may select other nodes soon, so that nodes of any pool may move; otherwise "".
func Moving(states []State) string {
	for _, s := range states {
		if s.IsWhole() {
			continue
		}
		have := pools(s.Live)
		sets := [][]v1alpha1.InventoryEntry{pools(s.Source.Status.Inventory)}
		if a := s.Source.Status.Applying; a != nil {
			sets = append(sets, pools(a.Inventory))
		}
		for _, want := range sets {
			if key := Difference(want, have); key != "" {
				_, name := SplitKey(key)
				return fmt.Sprintf("GitSource %s: MachineConfigPool %s, which decides which nodes are its own, is "+
					"not as one whole revision has it", s.Source.Name, name)
			}
		}
	}
	return ""
}

// pools are MachineConfigPools.
func pools(entries []v1alpha1.InventoryEntry) []v1alpha1.InventoryEntry {
	var out []v1alpha1.InventoryEntry
	for _, e := range entries {
		if e.Kind == KindMachineConfigPool {
			out = append(out, e)
		}
	}
	return out
}

func nameOf(revision string) string {
	if revision == "" {
		return "the state before the first revision"
	}
	return revision
}

// feeds reports whether an object of the source affects the pool's config or its rollout: the pool itself, a
// MachineConfig that it selects, or a policy, which may select any pool.
func (s State) feeds(pool string, selector labels.Selector) bool {
	matters := func(e v1alpha1.InventoryEntry) bool {
		switch e.Kind {
		case KindMachineConfig:
			return Selects(selector, e.Role)
		case KindMachineConfigPool:
			return e.Name == pool
		case KindRolloutPolicy, KindMachineConfiguration, KindPinnedImageSet:
			return true
		}
		return false
	}
	status := s.Source.Status
	return slices.ContainsFunc(s.Live, matters) || slices.ContainsFunc(status.Inventory, matters) ||
		status.Applying != nil && slices.ContainsFunc(status.Applying.Inventory, matters)
}

// Selector returns the pool's machineConfigSelector. An absent or empty selector selects nothing.
func Selector(pool *mcfgv1.MachineConfigPool) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil {
		return nil, fmt.Errorf("reading the machineConfigSelector of pool %q: %w", pool.Name, err)
	}
	if selector.Empty() {
		return labels.Nothing(), nil
	}
	return selector, nil
}

// Selects reports whether a selector selects a MachineConfig of a repository with this role. Labels that users add on
// the cluster do not put one into another pool.
func Selects(selector labels.Selector, role string) bool {
	return selector.Matches(labels.Set{v1alpha1.RoleLabel: role})
}

// Select returns the MachineConfigs from which a pool's config is rendered.
func Select(selector labels.Selector, all []mcfgv1.MachineConfig) []*mcfgv1.MachineConfig {
	var out []*mcfgv1.MachineConfig
	for i := range all {
		mc := &all[i]
		if mc.Labels[v1alpha1.SourceLabel] != "" {
			if Selects(selector, mc.Labels[v1alpha1.RoleLabel]) {
				out = append(out, mc)
			}
		} else if selector.Matches(labels.Set(mc.Labels)) {
			out = append(out, mc)
		}
	}
	return out
}

// Selected returns a digest of the names and contents of MachineConfigs; empty for none. Pools with the same one were
// rendered from the same MachineConfigs.
func (d *Digests) Selected(configs []*mcfgv1.MachineConfig) (string, error) {
	if len(configs) == 0 {
		return "", nil
	}
	lines := make([]string, len(configs))
	for i, mc := range configs {
		digest, err := d.Of(mc)
		if err != nil {
			return "", err
		}
		lines[i] = mc.Name + " " + digest
	}
	slices.Sort(lines)
	return digestOf([]byte(strings.Join(lines, "\n"))), nil
}
