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
	for _, own := range []string{host.RecordPath, host.OrigDir, host.NoOrigDir, host.AccountsPath, host.StateDir, host.ForcePath} {
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

// renumbered refuses to give an account that is there another number: its files would be somebody else's.
func renumbered(observed, target host.State) (refusals []policy.Refusal) {
	refuse := func(field, what string, is, shall int) {
		refusals = append(refusals, policy.Refusal{Field: field, Why: fmt.Sprintf("it has the %s %d on this node, and its files would belong to nobody with %d: give %d, or leave it out", what, is, shall, is)})
	}
	for _, name := range slices.Sorted(maps.Keys(target.Users)) {
		if is, shall := observed.Users[name], target.Users[name]; is.There && shall.There && is.UID != shall.UID {
			refuse("passwd.users "+name, "uid", is.UID, shall.UID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(target.Groups)) {
		if is, shall := observed.Groups[name], target.Groups[name]; is.There && shall.There && is.GID != shall.GID {
			refuse("passwd.groups "+name, "gid", is.GID, shall.GID)
		}
	}
	return refusals
}

// cannotAppend refuses to append to what is no file: its place would be taken, and nothing be appended.
func cannotAppend(observed, target host.State, to Wanted) (refusals []policy.Refusal) {
	for _, p := range slices.Sorted(maps.Keys(to.Appends)) {
		was := observed.Paths[p]
		if orig := target.Paths[origPath(p)]; orig.Kind != host.Absent {
			was = orig
		}
		if was.Kind != host.Absent && was.Kind != host.File {
			refusals = append(refusals, policy.Refusal{Field: "storage.files " + p + " append", Why: fmt.Sprintf("this node has a %s here, and only files can be appended to: give the whole contents, or name the file itself", was.Kind)})
		}
	}
	return refusals
}
