package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/nodepath"
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

// refuseSamePaths refuses two paths that links on the machine lead to the same file: the second one would overwrite the
// first.
func refuseSamePaths(target host.State, to Desired) (refusals []disruption.Refusal) {
	links := map[string]string{}
	for p, e := range target.Paths {
		if e.Kind == host.Link {
			links[p] = e.Target
		}
	}
	places := map[string]string{} // places has only paths that a link leads to another place.
	for p := range to.Paths {
		if at := disruption.ResolveLinks(links, p); at != p {
			places[p] = at
		}
	}
	if len(places) == 0 {
		return nil
	}
	named := map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(to.Paths)) {
		at := cmp.Or(places[p], p)
		if other, twice := named[at]; twice {
			refusals = append(refusals, refuseSecondName(p, other))
		}
		named[at] = p
	}
	return refusals
}

// refuseReplacedByDirs refuses to create a directory in place of a file that no config wrote. The file would be lost,
// because the daemon stores the originals only of paths that a config names.
func refuseReplacedByDirs(observed, target host.State, w Transition) (refusals []disruption.Refusal) {
	for p, shall := range target.Paths {
		if shall.Kind != host.Dir {
			continue
		}
		is := observed.Paths[p]
		if is.Kind == host.Dir || is.Kind == host.Absent || is.Kind == host.Unsafe {
			continue
		}
		_, ours := w.Old.Paths[p]
		replaces := w.New.Paths[p].Kind == host.Dir && !w.New.NoOverwrite[p] && is.Kind != host.Other
		if !ours && !replaces {
			refusals = append(refusals, disruption.OnNode(disruption.CheckPaths, p,
				fmt.Sprintf("the config needs a directory at this path, and this node has a %s that no config "+
					"created. Choose another path, or move the %s away if the node does not need it", is.Kind,
					is.Kind)))
		}
	}
	return sortRefusals(refusals)
}

// sortRefusals sorts refusals by field.
func sortRefusals(refusals []disruption.Refusal) []disruption.Refusal {
	slices.SortFunc(refusals, func(a, b disruption.Refusal) int { return strings.Compare(a.Field, b.Field) })
	return refusals
}

// Blocked returns the plan with a refusal for each blocker that counts.
func (p Plan) Blocked(found []host.Blocker) Plan {
	p.Refusals = slices.Clone(p.Refusals)
	for _, b := range p.Counting(found) {
		p.Refusals = append(p.Refusals, disruption.OnNode(disruption.CheckDisk, b.Path, b.String()))
	}
	return p
}

// Counting returns the blockers that count for the plan. A file system in memory counts if the update reboots, and only
// in a place that is empty after each boot on every system: a machine that runs from memory as a whole keeps nothing.
// A mask that the new config has is told as the config's.
func (p Plan) Counting(found []host.Blocker) []host.Blocker {
	found = slices.Clone(found)
	for i, b := range found {
		if b.Kind == host.MaskedUnit && p.Masks[b.At] {
			found[i].At, found[i].Shipped = "", false
		}
	}
	return slices.DeleteFunc(found, func(b host.Blocker) bool {
		return b.Kind == host.InMemory && !(p.Reboots() && nodepath.PlaceOf(b.Path, "").Fate == nodepath.LostAtBoot)
	})
}

// refuseUsedDirs refuses a file or link in place of a directory that is not empty.
func refuseUsedDirs(target host.State, w Transition) (refusals []disruption.Refusal) {
	if len(w.Refusals) > 0 {
		// A refusal in w may be about a path below a file of the same config, which would look like a used directory.
		return nil
	}
	for p, want := range w.New.Paths {
		if want.Kind != host.Dir && want.Kind != host.Absent && target.Paths[p].Kind == host.Dir {
			refusals = append(refusals, disruption.OnNode(disruption.CheckPaths, p, host.Blocker{
				Kind: host.UsedDir, Path: p, At: p,
			}.String()))
		}
	}
	return sortRefusals(refusals)
}

func refuseSecondName(p, other string) disruption.Refusal {
	return disruption.OnNode(disruption.CheckPaths, p,
		fmt.Sprintf("a link on this node makes it the same place as %s, which "+
			"the config names too: keep one of them", other))
}
