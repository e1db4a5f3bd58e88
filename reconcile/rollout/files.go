package rollout

import (
	"bytes"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// maxConfigs is for how many rendered configs Files stores the hashes. A pool has at most about 3,000 configs.
const maxConfigs = 10000

// RemoteFiles has the hashes of the remote files, and the OS images, of rendered configs. The zero value is empty and
// ready for use by several goroutines.
type RemoteFiles struct {
	mu sync.Mutex
	of map[string][]string
}

// Examine stores the remote files of a rendered config, which never change.
func (f *RemoteFiles) Examine(mc *mcfgv1.MachineConfig) {
	f.mu.Lock()
	_, known := f.of[mc.Name]
	f.mu.Unlock()
	if known {
		return
	}
	hashes := hashesOf(mc)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil || len(f.of) >= maxConfigs {
		f.of = map[string][]string{}
	}
	f.of[mc.Name] = hashes
}

// hashesOf returns the hashes of the remote files, and the OS image. A config that cannot be parsed has none, and
// daemons refuse it.
func hashesOf(mc *mcfgv1.MachineConfig) (hashes []string) {
	if image := machineconfig.PulledImage(mc.Spec.OSImageURL); image != "" {
		hashes = append(hashes, "image:"+image)
	}
	// Most configs have no remote files, and parsing takes long.
	if !bytes.Contains(mc.Spec.Config.Raw, []byte(`"hash"`)) {
		return hashes
	}
	c, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return hashes
	}
	for _, r := range machineconfig.RemoteFiles(c) {
		hashes = append(hashes, r.Hash)
	}
	return hashes
}

// New reports whether a config of a pool has remote files that nodes with another one may lack. Both are given with
// their configs of single nodes: target has new files if one of its configs has a file that not all configs of before
// have. A config that was not examined has no files.
func (f *RemoteFiles) New(target, before []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	had := map[string]int{}
	for _, config := range before {
		for hash := range setOf(f.of[config]) {
			had[hash]++
		}
	}
	for _, config := range target {
		for _, hash := range f.of[config] {
			if had[hash] == 0 || had[hash] < len(before) {
				return true
			}
		}
	}
	return false
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}
