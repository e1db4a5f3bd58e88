package transpile

import (
	"encoding/json"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// LargeFileRule is the rule of findings about large files.
const LargeFileRule = "large-file"

// objectMetadata is the approximate size of a MachineConfig without its spec: labels, annotations, managed fields.
const objectMetadata = 8 << 10

// CheckLargeFiles refuses an address in the content store that a document writes itself. The content store has the
// files of the repository only, and nothing keeps another one there. The argument own has the files that Bunsen moved
// there.
func CheckLargeFiles(c machineconfig.Config, own []machineconfig.LargeFile,
	places origin.Map,
) (found []origin.Finding) {
	for _, f := range machineconfig.RemoteFiles(c) {
		hash, stored := machineconfig.StoredHash(f.URL)
		if !stored || slices.ContainsFunc(own, func(c machineconfig.LargeFile) bool { return c.Hash == hash }) {
			continue
		}
		at := origin.Pos{}
		for i, written := range c.Ignition.Storage.Files {
			if written.Path == f.Path {
				at, _ = places.Find(fmt.Sprintf("$.storage.files.%d.contents.source", i))
			}
		}
		found = append(found, origin.Errorf(at, "content-store", "the source of %s is in the content store, which "+
			"only Bunsen writes: put the file into the repository, and name it with Butane's `local:`", f.Path))
	}
	return found
}

// FitLargeFiles returns the spec of a MachineConfig, and its files in the content store. If the spec would not fit into
// an object with the given bytes of annotations, Fit moves the largest files to the content store.
func FitLargeFiles(c machineconfig.Config, own []machineconfig.LargeFile,
	annotations int,
) (mcfgv1.MachineConfigSpec, []machineconfig.LargeFile, error) {
	spec, err := c.Spec()
	if err != nil {
		return spec, nil, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return spec, nil, fmt.Errorf("measuring the MachineConfig: %w", err)
	}
	config, moved, err := machineconfig.MoveLargeFiles(c, len(text)+annotations+objectMetadata)
	if err != nil || len(moved) == 0 {
		return spec, own, err
	}
	spec, err = config.Spec()
	return spec, slices.Concat(own, moved), err
}
