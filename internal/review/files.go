package review

import (
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// FileChanges are the changed files of the repository that the rendered configs do not show.
type FileChanges struct {
	// Submodules are the submodules that another commit is named for. Their files are not in the review, and a source
	// that includes submodules has them.
	Submodules []SubmoduleChange `json:"submodules,omitempty"`
	// WithoutEffect are the changed files and links that change nothing on nodes: no program reads them, or the
	// documents that they belong to give the same configs as before.
	WithoutEffect []string `json:"filesWithoutEffect,omitempty"`
}

// SubmoduleChange is one submodule that another commit is named for.
type SubmoduleChange struct {
	Path string `json:"path"`
	// From and To are the full hashes of the commits. From is empty for a new submodule, To for a removed one.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Files are the entries of one side's commit, and which of them are read.
type Files struct {
	// Entries are the entries of the tree. Without them nothing is said about files.
	Entries map[string]source.Entry
	// Reads are the files that the documents of each pool are built from.
	Reads map[string][]string
}

// WithFiles adds the changes of files that the rendered configs do not show. Changes of cluster/ and of who can read
// secrets come first.
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
	rules := map[string]bool{}
	for _, line := range c.CreationRules {
		file, _, _ := strings.Cut(line, ": ")
		rules[file] = true
	}
	all := maps.Clone(base.Entries)
	maps.Copy(all, head.Entries)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		was, is := base.Entries[path], head.Entries[path]
		switch {
		case was == is:
		case isSubmodule(was) || isSubmodule(is):
			if change := submoduleChange(path, was, is); change.From != change.To {
				c.Submodules = append(c.Submodules, change)
			}
		case effective[path], inCluster && strings.HasPrefix(path, transpile.ClusterDir+"/"), rules[path]:
		default:
			c.WithoutEffect = append(c.WithoutEffect, path)
		}
	}
	return c
}

func isSubmodule(e source.Entry) bool { return strings.HasPrefix(e.Refused, source.SubmoduleWhy) }

// submoduleChange describes the change of a submodule. The commit of a submodule in a work tree is unknown, and counts
// as unchanged.
func submoduleChange(path string, was, is source.Entry) SubmoduleChange {
	out := SubmoduleChange{Path: path}
	if isSubmodule(was) {
		out.From = was.State
	}
	if isSubmodule(is) {
		out.To = is.State
	}
	if isSubmodule(was) && isSubmodule(is) && (was.State == "" || is.State == "") {
		out.From = out.To
	}
	return out
}
