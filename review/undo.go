package review

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// runningCluster is the name of a base that is what a cluster runs.
const runningCluster = "the cluster"

// undo is the one line that takes the change back. A commit on top of base is reverted. Of more than one, some may be
// merges, or base may lie on another branch: then what base holds is put back. Where a side is no commit, words say so.
func undo(c Comparison) string {
	switch base, head := c.BaseCommit, c.HeadCommit; {
	case !c.Changed():
		return ""
	case base == nil && c.Base == runningCluster:
		return "revert the commit after it is pushed; every pool then returns to its earlier rendered config"
	case head == nil || head.Hash == "" || base == nil || base.Hash == "":
		return fmt.Sprintf("restore the files of %s; every pool then returns to its earlier rendered config", c.Base)
	case slices.Equal(head.Parents, []string{base.Hash}):
		return "git revert " + short(head.Hash)
	case len(head.Parents) > 0 && head.Parents[0] == base.Hash:
		return "git revert -m 1 " + short(head.Hash)
	default:
		return "git restore --source=" + short(base.Hash) + " --staged --worktree " + pathspec(c.folder)
	}
}

// pathspec names a folder from the repository's root, for a shell.
func pathspec(folder string) string {
	spec := ":/" + folder
	if strings.ContainsFunc(folder, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
	}) {
		spec = "'" + strings.ReplaceAll(spec, "'", `'\''`) + "'"
	}
	return spec
}

// short is a name as people write it: eight digits of a hash, and anything else as it is.
func short(name string) string {
	if len(name) != 40 && len(name) != 64 {
		return name
	}
	for _, r := range name {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return name
		}
	}
	return name[:8]
}
