package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// KindMachineConfig is an inventory's word for fragments; everything else in it is a cluster object.
const KindMachineConfig = "MachineConfig"

// Digests remembers the digest of each live MachineConfig, so that a look at a thousand of them reads none again. A
// MachineConfig has no status, so its generation moves with its spec; the role is a label and is compared itself.
// The zero value is ready; losing it costs time only.
type Digests struct {
	known sync.Map // uid → digestKnown
}

type digestKnown struct {
	generation   int64
	role, digest string
}

// Of returns the digest of mc as an inventory has it.
func (d *Digests) Of(mc *mcfgv1.MachineConfig) (string, error) {
	role := mc.Labels[v1alpha1.RoleLabel]
	if v, ok := d.known.Load(mc.UID); ok && mc.UID != "" {
		if k := v.(digestKnown); k.generation == mc.Generation && k.role == role {
			return k.digest, nil
		}
	}
	digest, err := Digest(mc)
	if err == nil && mc.UID != "" {
		d.known.Store(mc.UID, digestKnown{mc.Generation, role, digest})
	}
	return digest, err
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
	sum := sha256.Sum256(sorted)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Whole tells whether the live fragments of a source are exactly those of its inventory, and names the first that is not.
func (d *Digests) Whole(inventory []v1alpha1.InventoryEntry, live []*mcfgv1.MachineConfig) (bool, string, error) {
	want := map[string]string{}
	for _, e := range inventory {
		if e.Kind == KindMachineConfig {
			want[e.Name] = e.Digest
		}
	}
	for _, mc := range live {
		digest, err := d.Of(mc)
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

// Left judges fragments whose source is gone: whether they are one whole commit nobody can tell any more, unless they
// are all that the config in force was made of, which inputs says, name to digest. sources are those that are there.
func (d *Digests) Left(selected []*mcfgv1.MachineConfig, sources map[string]*v1alpha1.GitSource, inputs map[string]string) error {
	orphan, there := "", map[string]bool{}
	for _, mc := range selected {
		there[mc.Name] = true
		source := mc.Labels[v1alpha1.SourceLabel]
		if source == "" || sources[source] != nil {
			continue
		}
		orphan = source
		digest, err := d.Of(mc)
		if err != nil {
			return err
		}
		if inputs[mc.Name] != digest {
			return left(mc.Name, source)
		}
	}
	for name := range inputs {
		if orphan != "" && !there[name] {
			return left(name, orphan)
		}
	}
	return nil
}

func left(name, source string) error {
	return fmt.Errorf("GitSource %q is gone, and MachineConfig %q is not what the config in force was made of: perhaps half a commit was applied; "+
		"make the GitSource again, or remove the label %s from its MachineConfigs to keep them as they are", source, name, v1alpha1.SourceLabel)
}
