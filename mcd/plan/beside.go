package plan

import (
	"maps"
	"slices"

	"github.com/bunsen-os/bunsen/internal/disruption"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Beside returns the steps from one set of files beside a config to another. The sets have paths only. As with a
// config, the machine's own files are stored and restored. The Field of each refusal is a path. The plan has no
// actions.
func Beside(observed host.State, name string, old, want Desired) (Plan, map[host.Digest][]byte) {
	old.OS, want.OS = observed.OS, observed.OS
	w := Transition{From: name, To: name, Old: old, New: want}
	target := Target(observed, old, want)
	for p := range want.Paths {
		k, is := recordOfOriginal(observed, p), observed.Paths[p]
		_, had := old.Paths[p]
		// also a file with the same contents, which Target would not store
		if !had && !k.isKnown() && is.Kind == host.File && !isDefault(observed, p, is) {
			target.Paths[k.origAt] = is
			for dir := range disruption.Parents(k.origAt) {
				if target.Paths[dir].Kind == host.Absent {
					target.Paths[dir] = directory(dir, nil)
				}
			}
		}
	}
	maps.Copy(target.Contents, want.Contents)
	refusals := slices.Concat(refuseUnsafe(observed, w), refuseReplacedByDirs(observed, target, w),
		refuseSamePaths(target, want), refuseUsedDirs(target, w))
	return Diff(observed, target, DiffOptions{From: name, To: name, Problems: refusals}), target.Contents
}
