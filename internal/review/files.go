package review

import (
	"maps"
	pathpkg "path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// FileChanges are the changed files of the repository that the rendered configs do not show.
type FileChanges struct {
	// Submodules are those that another commit is named for. Their files are not in the review, though a source that
	// includes submodules has them.
	Submodules []SubmoduleChange `json:"submodules,omitempty"`
	// WithoutEffect are changed files that no program reads, or whose documents give the same configs as before.
	WithoutEffect []string `json:"filesWithoutEffect,omitempty"`
}

// SubmoduleChange is one submodule that another commit is named for.
type SubmoduleChange struct {
	Path   string `json:"path"`
	Change string `json:"change"`
	// From and To are full hashes; empty where there is no submodule, and for one in a work tree, whose commit is
	// unknown.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Files are the entries of one side's commit, and which of them are read.
type Files struct {
	// Entries of the tree. Without them nothing is said about files.
	Entries map[string]source.Entry
	// Reads are the files that the documents of each pool are built from.
	Reads map[string][]string
}

// WithFiles adds the changes of files that the rendered configs do not show, those of cluster/ and of who can read
// secrets first.
func (c Comparison) WithFiles(base, head Files) Comparison {
	if base.Entries == nil || head.Entries == nil {
		return c
	}
	effective := map[string]bool{}
	for i := range c.Pools {
		if p := &c.Pools[i]; p.Changed() {
			for _, path := range slices.Concat(base.Reads[p.Pool], head.Reads[p.Pool]) {
				effective[path] = true
			}
		}
	}
	inCluster := len(c.Policy)+len(c.MachineConfigPools)+len(c.ClusterObjects) > 0
	all := maps.Clone(base.Entries)
	maps.Copy(all, head.Entries)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		was, is := base.Entries[path], head.Entries[path]
		switch {
		case was == is:
		case isSubmodule(was) && !isSubmodule(is):
			c.Submodules = append(c.Submodules, SubmoduleChange{Path: path, Change: "removed", From: was.State})
		case !isSubmodule(was) && isSubmodule(is):
			c.Submodules = append(c.Submodules, SubmoduleChange{Path: path, Change: "added", To: is.State})
		case isSubmodule(is):
			if was.State != "" && is.State != "" { // The commit of a work tree is unknown, and counts as unchanged.
				c.Submodules = append(c.Submodules, SubmoduleChange{path, "changed", was.State, is.State})
			}
		case effective[path], inCluster && strings.HasPrefix(path, transpile.ClusterDir+"/"):
		case len(c.CreationRules) > 0 && pathpkg.Base(path) == rulesFile: // its lines are shown
		default:
			c.WithoutEffect = append(c.WithoutEffect, path)
		}
	}
	return c
}

func isSubmodule(e source.Entry) bool { return strings.HasPrefix(e.Refused, source.SubmoduleWhy) }

// rulesFile: the creation rules of SOPS
const rulesFile = ".sops.yaml"
