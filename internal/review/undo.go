package review

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

// UndoCost says that the undo of a change disturbs the nodes of a pool more than the change does, because the undo
// takes rules of the disruption policy back too.
type UndoCost struct {
	Pool string `json:"pool"`
	// Disruption is the strongest action of the undo, in the words of PoolChange.
	Disruption string `json:"disruption"`
}

// undoCosts compares the way back, under base's rules, with the changes of pools that both sides have.
func undoCosts(base, head Side, changes []PoolChange) []UndoCost {
	if reflect.DeepEqual(base.Policy, head.Policy) && reflect.DeepEqual(base.Overrides, head.Overrides) {
		return nil // The way back costs what the change costs.
	}
	t := terms{differ: newDiffer(), policy: base.Policy, overrides: base.Overrides}
	var out []UndoCost
	for _, p := range changes {
		if base.Pools[p.Pool].Rendered == "" || head.Pools[p.Pool].Rendered == "" || len(p.Nodes) > 0 {
			continue
		}
		back := comparePoolOrNext(p.Pool, head, base, t).Disruption
		for _, nodes := range nodeChanges(p.Pool, head, base, t) {
			back = stronger(back, nodes.Disruption)
		}
		if back != p.Disruption && stronger(back, p.Disruption) == back {
			out = append(out, UndoCost{p.Pool, back})
		}
	}
	return out
}

// stronger returns the stronger one of two disruptions.
func stronger(a, b string) string {
	for d := disruption.Reboot; d > disruption.None; d-- {
		if word := d.String(); a == word || b == word {
			return word
		}
	}
	return a
}

func undo(c Comparison) string {
	switch base, head := c.BaseCommit, c.HeadCommit; {
	case !c.Changed():
		return ""
	case base == nil && c.FromCluster():
		return "revert the commit after it is pushed; every pool then returns to its earlier rendered config"
	case c.FromCluster() && (head == nil || head.Hash == ""):
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

// pathspec quotes a folder, from the repository's root, for git and a shell.
func pathspec(folder string) string {
	spec := ":/" + folder
	if strings.ContainsFunc(folder, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-", r)
	}) {
		spec = "'" + strings.ReplaceAll(spec, "'", `'\''`) + "'"
	}
	return spec
}
