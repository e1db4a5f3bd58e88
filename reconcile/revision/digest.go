package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
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

// Digests computes the digests of live objects and caches them, so that unchanged objects are not read again. The zero
// value of Digests is ready for use. If the cache is lost, calls only take longer.
type Digests struct {
	configs sync.Map // uid → configDigest
	objects sync.Map // uid → objectDigest
}

// configDigest is the digest of a MachineConfig at a generation. A MachineConfig has no status, so its generation
// changes with its spec. The role is a label, so Digests compares it separately.
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

// Digest returns the digest of the fields on which a render depends: the role and the spec. Digest sorts keys, because
// the API server returns the inline Ignition config in another order.
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

// digestOf returns the SHA-256 of data in the form of an inventory.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
