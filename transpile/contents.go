package transpile

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/internal/disruption"

	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// withFiles returns fragments whose large files are read from a tree. A cached fragment may be from another tree.
func withFiles(fragments []Fragment, files fs.FS) []Fragment {
	for i := range fragments {
		fragments[i].Contents = slices.Clone(fragments[i].Contents)
		for k := range fragments[i].Contents {
			fragments[i].Contents[k].FS = files
		}
		withFiles(fragments[i].Documents, files)
	}
	return fragments
}

// checkLargeFiles refuses files that are too large for a MachineConfig, if there is no content store.
func (t *Transpiler) checkLargeFiles(fragments []Fragment, found *origin.Findings) {
	if t.LargeFiles {
		return
	}
	for _, f := range fragments {
		t.checkLargeFiles(f.Documents, found)
		config, err := machineconfig.Parse(f.MachineConfig.Spec)
		if err != nil {
			continue // This line is unreachable, because the fragment was written from a config.
		}
		for _, c := range f.Contents {
			at, ok := f.Origin.Find(PlacedItem(config, disruption.KindFile, c.Path))
			if !ok {
				at = origin.Pos{File: f.File}
			}
			found.Errorf(at, LargeFileRule, "%s has %s and does not fit into a MachineConfig: %v", c.Path,
				machineconfig.SizeText(c.Size), machineconfig.ErrNoContentStore)
		}
	}
}

// RuleImageDigest is the rule of OS images without a digest.
const RuleImageDigest = "image-digest"

// checkImages refuses images without a digest, because nodes with the same config could run different ones.
func (t *Transpiler) checkImages(fragments []Fragment, found *origin.Findings) {
	if t.ImagesByTag {
		return
	}
	for _, f := range fragments {
		t.checkImages(f.Documents, found)
		for _, err := range kinds.CheckImages(f.MachineConfig.Spec) {
			at, ok := f.Origin.Find(PlacedOutput(err.Error()))
			if !ok {
				at = origin.Pos{File: f.File}
			}
			found.Errorf(at, RuleImageDigest, "%v", err)
		}
	}
}

// Contents returns the files of all fragments that are in the content store, each hash once.
func Contents(fragments []Fragment) (all []machineconfig.LargeFile) {
	for _, f := range fragments {
		all = append(append(all, f.Contents...), Contents(f.Documents)...)
	}
	slices.SortStableFunc(all, func(a, b machineconfig.LargeFile) int { return strings.Compare(a.Hash, b.Hash) })
	return slices.CompactFunc(all, func(a, b machineconfig.LargeFile) bool { return a.Hash == b.Hash })
}
