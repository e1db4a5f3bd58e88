package plan

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/internal/disruption"

	"github.com/bunsen-os/bunsen/mcd/host"
)

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

// refuseNewIDs refuses to change the number of an existing account, because the account's files have the old number.
func refuseNewIDs(observed, target host.State) (refusals []disruption.Refusal) {
	refuse := func(field, what string, is, shall int) {
		refusals = append(refusals, disruption.OnNode(disruption.CheckAccounts, field,
			fmt.Sprintf("it has the %s %d on this "+
				"node, and the owner of its files would not exist with %d: give %d, or leave it "+
				"out", what, is, shall, is)))
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

// refuseRemovedAccounts refuses a config that names an account which only the current config creates.
func refuseRemovedAccounts(target host.State, named []disruption.Account) (refusals []disruption.Refusal) {
	for _, a := range named {
		user, isUser := target.Users[a.Name]
		group, isGroup := target.Groups[a.Name]
		if a.Kind == disruption.KindUser && isUser && !user.There || a.Kind == disruption.KindGroup && isGroup &&
			!group.There {
			refusals = append(refusals, disruption.OnNode(disruption.CheckAccounts, a.Field,
				fmt.Sprintf("it names %s %q, which goes because the config does not make it any more: keep it in "+
					"passwd, or name another one", a.Kind, a.Name)))
		}
	}
	return refusals
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

// refuseOverwrites refuses to replace a file that existed before any config, unless the config sets overwrite: a new
// machine with that file would not boot. refuseOverwrites does not refuse a path of the current config.
func refuseOverwrites(target host.State, w Transition) (refusals []disruption.Refusal) {
	for p, yields := range w.New.NoOverwrite {
		want, was := w.New.Paths[p], target.Paths[origPath(p)]
		if !yields || was.Kind == host.Absent || w.Old.NoOverwrite[p] && w.Old.Paths[p].Kind == want.Kind {
			continue
		}
		_, takes := w.New.Appends[p]
		if was.Kind == want.Kind &&
			(was.Kind == host.Dir || takes || path.Clean(was.Target) == path.Clean(want.Target) &&
				was.Kind == host.Link) {
			continue
		}
		refusals = append(refusals, disruption.OnNode(disruption.CheckPaths, p,
			fmt.Sprintf("this node has a %s at this path "+
				"that no config created, and the config does not set overwrite: true, so a new node would not boot. "+
				"Set "+
				"overwrite: true, or choose another path", was.Kind)))
	}
	return sortRefusals(refusals)
}

// refuseHardLinks refuses hard links to files that do not exist after the update.
func refuseHardLinks(target host.State, to Desired) (refusals []disruption.Refusal) {
	for p, e := range to.Paths {
		if e.Kind == host.Hard && !slices.Contains([]host.Kind{host.File, host.Link}, target.Paths[e.Target].Kind) {
			refusals = append(refusals, disruption.OnNode(disruption.CheckPaths, "storage.links "+p,
				fmt.Sprintf("the target %s of this hard link is neither a file nor a link, on this node or in this "+
					"config: correct the target", e.Target)))
		}
	}
	return sortRefusals(refusals)
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

func refuseSecondName(p, other string) disruption.Refusal {
	return disruption.OnNode(disruption.CheckPaths, p,
		fmt.Sprintf("a link on this node makes it the same place as %s, which "+
			"the config names too: keep one of them", other))
}

// refuseAppends refuses to append to a path that is not a file.
func refuseAppends(observed, target host.State, to Desired) (refusals []disruption.Refusal) {
	for _, p := range slices.Sorted(maps.Keys(to.Appends)) {
		was := observed.Paths[p]
		if orig := target.Paths[origPath(p)]; orig.Kind != host.Absent {
			was = orig
		}
		if was.Kind != host.Absent && was.Kind != host.File {
			refusals = append(refusals, disruption.OnNode(disruption.CheckPaths, "storage.files "+p,
				fmt.Sprintf("this node has a %s at this path, and the config appends to a file or keeps its "+
					"contents. Give the whole contents, or correct the path", was.Kind)))
		}
	}
	return refusals
}
