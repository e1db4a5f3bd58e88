package transpile

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/contentstore"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/nodefacts"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// objectMetadata is the approximate size of a MachineConfig without its spec: labels, annotations, managed fields.
const objectMetadata = 8 << 10

// checkContents refuses an address in the content store that a document writes itself. The content store has the files of
// the repository only, and nothing keeps another one there.
func (d *translation) checkContents() {
	for _, f := range machineconfig.RemoteFiles(d.config) {
		hash, stored := machineconfig.StoredHash(f.URL)
		own := slices.ContainsFunc(d.contents, func(c contentstore.File) bool { return c.Hash == hash })
		if !stored || own {
			continue
		}
		at := origin.Pos{}
		for i, written := range d.config.Ignition.Storage.Files {
			if written.Path == f.Path {
				at, _ = d.origin.Find(fmt.Sprintf("$.storage.files.%d.contents.source", i))
			}
		}
		d.Errorf(at, "content-store", "the source of %s is in the content store, which only Bunsen writes: put the file into the repository, and name it with Butane's `local:`", f.Path)
	}
}

// fit returns the spec of the MachineConfig. If it would not fit into an object, fit moves the largest files to the content
// store.
func (d *translation) fit() (mcfgv1.MachineConfigSpec, error) {
	spec, err := d.config.Spec()
	if err != nil {
		return spec, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return spec, fmt.Errorf("measuring the MachineConfig: %w", err)
	}
	config, moved, err := contentstore.Move(d.config, len(text)+len(d.secretPaths)+objectMetadata)
	if err != nil || len(moved) == 0 {
		return spec, err
	}
	d.config, d.contents = config, append(slices.Clone(d.contents), moved...)
	return d.config.Spec()
}

// withFiles returns fragments whose large files are read from a tree. A cached fragment may be from another tree with the
// same files.
func withFiles(fragments []Fragment, files fs.FS) []Fragment {
	for i := range fragments {
		fragments[i].Contents = slices.Clone(fragments[i].Contents)
		for k := range fragments[i].Contents {
			if c := &fragments[i].Contents[k]; c.Name != "" {
				c.FS = files
			}
		}
		withFiles(fragments[i].Documents, files)
	}
	return fragments
}

// refuseLargeFacts refuses large files with references to facts, because a file of the content store is the same on all
// nodes.
func (b *nodeBuilder) refuseLargeFacts(f Fragment) {
	for _, c := range f.Contents {
		if c.HasFacts && b.rows != nil {
			b.Errorf(origin.Pos{File: c.Name, Line: 1}, nodefacts.Rule, "the file is too large for a config, and contains %s. A file of the content store is the same on all nodes: make it smaller, or remove the reference", contentstore.Fact)
		}
	}
}

// Contents returns the files of all fragments that are in the content store, each hash once.
func Contents(fragments []Fragment) []contentstore.File {
	var out []contentstore.File
	for _, f := range fragments {
		out = append(append(out, f.Contents...), Contents(f.Documents)...)
	}
	slices.SortStableFunc(out, func(a, b contentstore.File) int { return strings.Compare(a.Hash, b.Hash) })
	return slices.CompactFunc(out, func(a, b contentstore.File) bool { return a.Hash == b.Hash })
}
