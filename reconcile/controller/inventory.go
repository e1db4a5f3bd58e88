package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// kindMachineConfig is the inventory's word for fragments; everything else in it is a cluster object.
const kindMachineConfig = "MachineConfig"

// digests remembers the digest of each live MachineConfig, so that a look at a thousand of them reads none again. A
// MachineConfig has no status, so its generation moves with its spec; the role is a label and is compared itself.
// The zero value is ready; losing it costs time only.
type digests struct {
	known sync.Map // uid → digestKnown
}

type digestKnown struct {
	generation   int64
	role, digest string
}

// of returns the digest of mc as an inventory has it.
func (d *digests) of(mc *mcfgv1.MachineConfig) (string, error) {
	role := mc.Labels[v1alpha1.RoleLabel]
	if v, ok := d.known.Load(mc.UID); ok && mc.UID != "" {
		if k := v.(digestKnown); k.generation == mc.Generation && k.role == role {
			return k.digest, nil
		}
	}
	digest, err := digestOf(mc)
	if err == nil && mc.UID != "" {
		d.known.Store(mc.UID, digestKnown{mc.Generation, role, digest})
	}
	return digest, err
}

// digestOf covers what decides about a render: the role and the spec. Keys are sorted, because the API server returns
// the inline Ignition in an order of its own.
func digestOf(mc *mcfgv1.MachineConfig) (string, error) {
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
	sum := sha256.Sum256(sorted)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// whole tells whether the live fragments of a source are exactly its inventory, and names the first that is not.
func (d *digests) whole(src *v1alpha1.GitSource, live []*mcfgv1.MachineConfig) (bool, string, error) {
	want := map[string]string{}
	for _, e := range src.Status.Inventory {
		if e.Kind == kindMachineConfig {
			want[e.Name] = e.Digest
		}
	}
	for _, mc := range live {
		digest, err := d.of(mc)
		if err != nil {
			return false, mc.Name, err
		}
		if want[mc.Name] != digest {
			return false, mc.Name, nil
		}
		delete(want, mc.Name)
	}
	for name := range want {
		return false, name, nil
	}
	return true, "", nil
}

// owned returns the MachineConfigs that carry the source's label.
func owned(all []mcfgv1.MachineConfig, source string) []*mcfgv1.MachineConfig {
	var out []*mcfgv1.MachineConfig
	for i := range all {
		if all[i].Labels[v1alpha1.SourceLabel] == source {
			out = append(out, &all[i])
		}
	}
	return out
}
