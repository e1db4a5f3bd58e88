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

// Kinds of the objects that an inventory lists.
const (
	KindMachineConfig        = "MachineConfig"
	KindMachineConfigPool    = "MachineConfigPool"
	KindMachineConfiguration = "MachineConfiguration"
	KindDriftPolicy          = "DriftPolicy"
	KindRolloutPolicy        = "RolloutPolicy"
)

// Digests computes the digests of live objects and remembers them, so that a look at a thousand objects that did not change
// reads none of them again. The zero value is ready; losing it costs time only.
type Digests struct {
	configs sync.Map // uid → configDigest
	objects sync.Map // uid → objectDigest
}

// configDigest is the digest of a MachineConfig at a generation. A MachineConfig has no status, so its generation moves with
// its spec; the role is a label and is compared itself.
type configDigest struct {
	generation   int64
	role, digest string
}

// Of returns the digest of mc as an inventory has it.
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

// Entry returns mc as an inventory lists it.
func (d *Digests) Entry(mc *mcfgv1.MachineConfig) (v1alpha1.InventoryEntry, error) {
	digest, err := d.Of(mc)
	return v1alpha1.InventoryEntry{Kind: KindMachineConfig, Name: mc.Name, Digest: digest, Role: mc.Labels[v1alpha1.RoleLabel]}, err
}

// Digest covers what decides about a render: the role and the spec. Keys are sorted, because the API server returns
// the inline Ignition in an order of its own.
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

// digestOf is the sha256 of data as inventories have it.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
