package transpile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// checkLargeFiles refuses files that are too large for a MachineConfig, if there is no content store.
func (t *Transpiler) checkLargeFiles(fragments []Fragment, found *origin.Findings) {
	if t.LargeFiles {
		return
	}
	for _, f := range fragments {
		t.checkLargeFiles(f.Documents, found)
		if len(f.Contents) == 0 {
			continue
		}
		config, err := machineconfig.Parse(f.MachineConfig.Spec)
		if err != nil {
			continue // This line is unreachable, because the fragment was written from a config.
		}
		for _, c := range f.Contents {
			at, ok := f.Origin.Find(placedItem(config, disruption.KindFile, c.Path))
			if !ok {
				at = origin.Pos{File: f.File}
			}
			found.Errorf(at, ruleLargeFile, "%s has %s and does not fit into a MachineConfig: %v", c.Path,
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
		for _, p := range kinds.CheckImages(f.MachineConfig.Spec) {
			at, ok := f.Origin.Find(p.Path)
			if !ok {
				at = origin.Pos{File: f.File}
			}
			found.Errorf(at, RuleImageDigest, "%v", p)
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

// ruleLargeFile is the rule of findings about large files.
const ruleLargeFile = "large-file"

// objectMetadata is the approximate size of a MachineConfig without its spec: labels, annotations, managed fields.
const objectMetadata = 8 << 10

// checkStoreAddresses refuses an address in the content store that a document writes itself. The content store has the
// files of the repository only, and nothing keeps another one there. The argument own has the files that Bunsen moved
// there.
func checkStoreAddresses(c machineconfig.Config, own []machineconfig.LargeFile,
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

// fitLargeFiles returns the spec of a MachineConfig, and its files in the content store. If the spec would not fit into
// an object with the given bytes of annotations, it moves the largest files to the content store.
func fitLargeFiles(c machineconfig.Config, own []machineconfig.LargeFile,
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

// placedItem returns the path of an item in a fragment. For an item of a merged config, it is the path of the reference
// to the merged config.
func placedItem(c machineconfig.Config, kind disruption.ChangeKind, name string) string {
	lists := map[disruption.ChangeKind]struct {
		path string
		keys []string
	}{
		disruption.KindFile:      {"$.storage.files.", keysOf(c.Ignition.Storage.Files)},
		disruption.KindDirectory: {"$.storage.directories.", keysOf(c.Ignition.Storage.Directories)},
		disruption.KindLink:      {"$.storage.links.", keysOf(c.Ignition.Storage.Links)},
		disruption.KindUnit:      {"$.systemd.units.", keysOf(c.Ignition.Systemd.Units)},
		disruption.KindUser:      {"$.passwd.users.", keysOf(c.Ignition.Passwd.Users)},
		disruption.KindGroup:     {"$.passwd.groups.", keysOf(c.Ignition.Passwd.Groups)},
	}
	list := lists[kind]
	if i := slices.Index(list.keys, name); i >= 0 {
		return list.path + strconv.Itoa(i)
	}
	return "$.ignition.config"
}

func keysOf[T interface{ Key() string }](list []T) []string {
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = list[i].Key()
	}
	return keys
}
