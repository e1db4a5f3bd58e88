package plan

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

// longestName is how long one name in a path may be: a file system takes 255 bytes, and what was there first is kept
// under the name with ".mcdnoorig" behind it.
const longestName = 245

// reserved says why no config can have a path, or "". What the daemon relies on to find its way back is nobody else's.
func reserved(p string) string {
	for _, own := range []string{host.RecordPath, host.OrigDir, host.NoOrigDir, host.StateDir, host.ForcePath} {
		if below(p, own) {
			return own + " belongs to the daemon, which keeps there what it needs to go back: take this path out of the config"
		}
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > longestName {
			return fmt.Sprintf("a name in it has %d bytes, at most %d: shorten it", len(name), longestName)
		}
	}
	if base := path.Base(p); strings.HasPrefix(base, ".") && strings.HasSuffix(base, host.NewSuffix) {
		return "names like this are the daemon's while it writes another file: choose another one"
	}
	return ""
}

// inTheWay refuses to make directories where something else is that no config made: it would be lost, because only what
// a config's file or link replaces is kept aside.
func inTheWay(observed, target host.State, from Wanted) (refusals []policy.Refusal) {
	for _, p := range slices.Sorted(maps.Keys(target.Paths)) {
		is, shall := observed.Paths[p], target.Paths[p]
		if shall.Kind != host.Dir || is.Kind == host.Dir || is.Kind == host.Absent {
			continue
		}
		if _, ours := from.Paths[p]; !ours {
			refusals = append(refusals, policy.Refusal{Field: p, Why: fmt.Sprintf("the config needs a directory here, and this node has a %s that no config made: move it away on the node, or choose another path", is.Kind)})
		}
	}
	return refusals
}
