package review

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// runningCluster is the name of a base that is read from a cluster.
const runningCluster = "the cluster"

// undo returns the command that reverts the change: `git revert` for one commit on top of base. For several commits, or
// for a base on another branch, the command restores the files of base, because the commits may include merges. If a
// side is not a commit, undo returns a text.
func undo(c Comparison) string {
	switch base, head := c.BaseCommit, c.HeadCommit; {
	case !c.Changed():
		return ""
	case base == nil && c.Base == runningCluster:
		return "revert the commit after it is pushed; every pool then returns to its earlier rendered config"
	case c.Base == runningCluster && (head == nil || head.Hash == ""):
		return "revert the commit after it is pushed; every pool then returns to its earlier rendered config"
	case head == nil || head.Hash == "" || base == nil || base.Hash == "":
		return fmt.Sprintf("restore the files of %s; every pool then returns to its earlier rendered config", c.Base)
	case slices.Equal(head.Parents, []string{base.Hash}):
		return "git revert " + ShortHash(head.Hash)
	case len(head.Parents) > 0 && head.Parents[0] == base.Hash:
		return "git revert -m 1 " + ShortHash(head.Hash)
	default:
		return "git restore --source=" + ShortHash(base.Hash) + " --staged --worktree " + pathspec(c.folder)
	}
}

// pathspec returns the git pathspec of a folder from the repository's root, quoted for a shell.
func pathspec(folder string) string {
	spec := ":/" + folder
	if strings.ContainsFunc(folder, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
	}) {
		spec = "'" + strings.ReplaceAll(spec, "'", `'\''`) + "'"
	}
	return spec
}

// ShortHash shortens a hash to eight digits. ShortHash returns any other name unchanged.
func ShortHash(name string) string {
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
