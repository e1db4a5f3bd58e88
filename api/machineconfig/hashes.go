package machineconfig

import (
	"bytes"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// AddContentHashes adds the hashes of the files of the content store that a MachineConfig names, also in its table of
// nodes.
func AddContentHashes(named map[string]bool, mc *mcfgv1.MachineConfig) {
	addContents(named, mc.Spec.Config.Raw)
	for _, raw := range tableDocuments(mc) {
		addContents(named, raw)
	}
}

// tableDocuments returns the configs of the documents in a table of nodes. An invalid table has none: no pool is
// rendered from it.
func tableDocuments(mc *mcfgv1.MachineConfig) (all [][]byte) {
	pool := PoolOf(mc)
	if pool == "" {
		return nil
	}
	config, err := Parse(mc.Spec)
	if err != nil {
		return nil
	}
	table, err := ReadNodeTable(pool, config)
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
// text, because parsing thousands of configs takes long. A text that only looks like an address keeps its file, which
// does no harm.
func addContents(named map[string]bool, raw []byte) {
	const hash = len("sha512-") + 128
	prefix := []byte(StoredSource(""))
	for {
		_, rest, found := bytes.Cut(raw, prefix)
		if !found {
			return
		}
		if len(rest) >= hash && IsStoredHash(string(rest[:hash])) {
			named[string(rest[:hash])] = true
		}
		raw = rest
	}
}
