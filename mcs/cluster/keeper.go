package cluster

import (
	"encoding/json"
	"log/slog"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Keeper keeps contents by name over a restart. What it gives back is what was put last, or nothing.
type Keeper interface {
	// Put keeps contents under a name.
	Put(name string, contents []byte) error
	// Get returns what is kept under a name.
	Get(name string) ([]byte, bool)
	// Remove forgets a name; one that is not there is no error.
	Remove(name string) error
	// Names lists what is kept.
	Names() []string
}

// Names of what is kept; a pool's config has the pool's name after the prefix.
const (
	poolPrefix   = "pool-"
	tokensKey    = "tokens"
	kubeletCAKey = "kubelet-ca"
)

// keepsNothing is the Keeper of a server without a place for it.
type keepsNothing struct{}

func (keepsNothing) Put(string, []byte) error      { return nil }
func (keepsNothing) Get(string) (c []byte, _ bool) { return nil, false }
func (keepsNothing) Remove(string) error           { return nil }
func (keepsNothing) Names() []string               { return nil }

// keptConfigs are the configs that were served last, by pool. What cannot be read is told and left out.
func keptConfigs(k Keeper, log *slog.Logger) map[string]*mcfgv1.MachineConfig {
	configs := map[string]*mcfgv1.MachineConfig{}
	for _, name := range k.Names() {
		pool, ok := strings.CutPrefix(name, poolPrefix)
		if !ok {
			continue
		}
		raw, ok := k.Get(name)
		if !ok {
			continue
		}
		config := &mcfgv1.MachineConfig{}
		if err := json.Unmarshal(raw, config); err != nil || config.Name == "" {
			log.Warn("ignoring what was kept", "pool", pool, "error", err)
			continue
		}
		configs[pool] = config
	}
	return configs
}

// keptTokens are the tokens that were known last, by id.
func keptTokens(k Keeper, log *slog.Logger) *map[string]*v1alpha1.ProvisioningToken {
	known := map[string]*v1alpha1.ProvisioningToken{}
	raw, ok := k.Get(tokensKey)
	if !ok {
		return &known
	}
	var all []v1alpha1.ProvisioningToken
	if err := json.Unmarshal(raw, &all); err != nil {
		log.Warn("ignoring the tokens that were kept", "error", err)
		return &known
	}
	for i := range all {
		known[all[i].Name] = &all[i]
	}
	return &known
}
