package render

import (
	"bytes"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodetable"
)

// NamedContents returns the hashes of the files of the content store that a cluster needs: those in MachineConfigs that Bunsen
// did not render, in rendered configs that something uses now, and in young rendered configs. An old rendered config that
// only a history names does not count, because a return to it renders it from its commit, and so writes its files again.
func NamedContents(h Holders, now time.Time) map[string]bool {
	needed := h.needed()
	named := map[string]bool{}
	for i := range h.Configs {
		mc := &h.Configs[i]
		_, used := needed[mc.Name]
		if isRendered(mc) && !used && now.Sub(mc.CreationTimestamp.Time) >= keepYounger {
			continue
		}
		addContents(named, mc.Spec.Config.Raw)
		for _, raw := range tableDocuments(mc) {
			addContents(named, raw)
		}
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

// tableDocuments returns the configs of the documents in a table of nodes. An invalid table has none: no pool is rendered
// from it.
func tableDocuments(mc *mcfgv1.MachineConfig) (all [][]byte) {
	pool := nodetable.PoolOf(mc)
	if pool == "" {
		return nil
	}
	config, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return nil
	}
	table, err := nodetable.Read(pool, config)
	if err != nil {
		return nil
	}
	for _, d := range table.Shared {
		all = append(all, d.Spec.Config.Raw)
	}
	for _, n := range table.Nodes {
		for _, d := range n.Documents {
			all = append(all, d.Spec.Config.Raw)
		}
	}
	return all
}

// addContents adds the hashes of the files of the content store that a config names. It looks for the addresses in the
// text, because parsing thousands of configs takes long. A text that only looks like an address keeps its file, which does
// no harm.
func addContents(named map[string]bool, raw []byte) {
	const hash = len("sha512-") + 128
	prefix := []byte(machineconfig.StoredSource(""))
	for {
		_, rest, found := bytes.Cut(raw, prefix)
		if !found {
			return
		}
		if len(rest) >= hash && machineconfig.IsStoredHash(string(rest[:hash])) {
			named[string(rest[:hash])] = true
		}
		raw = rest
	}
}
