package render

import (
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// NamedContents returns the hashes of the files of the content store that a cluster needs: those in MachineConfigs that
// Bunsen did not render, in rendered configs that something uses now, and in young rendered configs. An old rendered
// config that only a history names does not count, because a return to it renders it from its commit, and so writes its
// files again.
func NamedContents(h Holders, now time.Time) map[string]bool {
	needed := h.needed()
	named := map[string]bool{}
	for i := range h.Configs {
		mc := &h.Configs[i]
		_, used := needed[mc.Name]
		if isRendered(mc) && !used && now.Sub(mc.CreationTimestamp.Time) >= keepYounger {
			continue
		}
		machineconfig.AddContentHashes(named, mc)
	}
	return named
}

// isRendered reports whether a MachineConfig is a rendered config of a pool. The pool may be gone.
func isRendered(mc *mcfgv1.MachineConfig) bool {
	for _, owner := range mc.OwnerReferences {
		if owner.Kind == "MachineConfigPool" && isNameOf(mc.Name, owner.Name) {
			return true
		}
	}
	return false
}
