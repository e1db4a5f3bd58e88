package plan

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

// inTheWay refuses to make directories where something else is that no config made: it would be lost, because only what
// a config itself replaces is kept aside.
func inTheWay(observed, target host.State, w Way) (refusals []policy.Refusal) {
	for p, shall := range target.Paths {
		if shall.Kind != host.Dir {
			continue
		}
		is := observed.Paths[p]
		if is.Kind == host.Dir || is.Kind == host.Absent || is.Kind == host.Unsafe {
			continue
		}
		_, ours := w.Old.Paths[p]
		replaces := w.New.Paths[p].Kind == host.Dir && !w.New.Yields[p] && is.Kind != host.Other
		if !ours && !replaces {
			refusals = append(refusals, policy.OnNode(policy.CheckPaths, p, fmt.Sprintf("the config needs a directory here, and this node has a %s that no config made: choose another path; or move the %s away on the node, if nothing needs it", is.Kind, is.Kind)))
		}
	}
	return inOrder(refusals)
}

// inOrder sorts refusals by what they are about.
func inOrder(refusals []policy.Refusal) []policy.Refusal {
	slices.SortFunc(refusals, func(a, b policy.Refusal) int { return strings.Compare(a.Field, b.Field) })
	return refusals
}

// renumbered refuses to give an account that is there another number: its files would be somebody else's.
func renumbered(observed, target host.State) (refusals []policy.Refusal) {
	refuse := func(field, what string, is, shall int) {
		refusals = append(refusals, policy.OnNode(policy.CheckAccounts, field, fmt.Sprintf("it has the %s %d on this node, and its files would belong to nobody with %d: give %d, or leave it out", what, is, shall, is)))
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

// leaving refuses accounts that the config names and that go with the one before, which made them.
func leaving(target host.State, named []policy.Account) (refusals []policy.Refusal) {
	for _, a := range named {
		user, isUser := target.Users[a.Name]
		group, isGroup := target.Groups[a.Name]
		if a.Kind == policy.KindUser && isUser && !user.There || a.Kind == policy.KindGroup && isGroup && !group.There {
			refusals = append(refusals, policy.OnNode(policy.CheckAccounts, a.Field, fmt.Sprintf("it names %s %q, which goes because the config does not make it any more: keep it in passwd, or name another one", a.Kind, a.Name)))
		}
	}
	return refusals
}

// inUse refuses files and links where a directory has to stay, for what is in it.
func inUse(target host.State, w Way) (refusals []policy.Refusal) {
	if len(w.Refusals) > 0 {
		return nil // a path below a file of the same config is in it
	}
	for p, want := range w.New.Paths {
		if want.Kind != host.Dir && want.Kind != host.Absent && target.Paths[p].Kind == host.Dir {
			refusals = append(refusals, policy.OnNode(policy.CheckPaths, p, "this node has a directory here with something in it that no config made: move that away on the node, or choose another path"))
		}
	}
	return inOrder(refusals)
}

// occupied refuses to replace what was at a path before any config, where the config does not say that it shall: a new
// machine that has the same there would not boot. What is in force already stays in force.
func occupied(target host.State, w Way) (refusals []policy.Refusal) {
	for p, yields := range w.New.Yields {
		want, was := w.New.Paths[p], target.Paths[origPath(p)]
		if !yields || was.Kind == host.Absent || w.Old.Yields[p] && w.Old.Paths[p].Kind == want.Kind {
			continue
		}
		_, takes := w.New.Appends[p]
		if was.Kind == want.Kind && (was.Kind == host.Dir || takes || path.Clean(was.Target) == path.Clean(want.Target) && was.Kind == host.Link) {
			continue
		}
		refusals = append(refusals, policy.OnNode(policy.CheckPaths, p, fmt.Sprintf("this node has a %s here that no config made, and the config does not say that it may be replaced, so that a new node like it would not boot: say overwrite: true, or choose another path", was.Kind)))
	}
	return inOrder(refusals)
}

// unlinkable refuses hard links to what nothing makes and nobody has.
func unlinkable(target host.State, to Wanted) (refusals []policy.Refusal) {
	for p, e := range to.Paths {
		if e.Kind == host.Hard && !slices.Contains([]host.Kind{host.File, host.Link}, target.Paths[e.Target].Kind) {
			refusals = append(refusals, policy.OnNode(policy.CheckPaths, "storage.links "+p, fmt.Sprintf("it is a hard link to %s, which is neither a file nor a link on this node or in this config: name one that is", e.Target)))
		}
	}
	return inOrder(refusals)
}

// collisions refuses two names for one place: links on the machine lead both to it, and the later one would win.
func collisions(target host.State, to Wanted) (refusals []policy.Refusal) {
	links := map[string]string{}
	for p, e := range target.Paths {
		if e.Kind == host.Link {
			links[p] = e.Target
		}
	}
	places := map[string]string{} // of those that a link leads elsewhere
	for p := range to.Paths {
		if at := policy.ResolveLinks(links, p); at != p {
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
			refusals = append(refusals, policy.OnNode(policy.CheckPaths, p, fmt.Sprintf("a link on this node makes it the same place as %s, which the config names too: keep one of them", other)))
		}
		named[at] = p
	}
	return refusals
}

// cannotAppend refuses to append to what is no file, or to take it as it is: its place would be taken.
func cannotAppend(observed, target host.State, to Wanted) (refusals []policy.Refusal) {
	for _, p := range slices.Sorted(maps.Keys(to.Appends)) {
		was := observed.Paths[p]
		if orig := target.Paths[origPath(p)]; orig.Kind != host.Absent {
			was = orig
		}
		if was.Kind != host.Absent && was.Kind != host.File {
			refusals = append(refusals, policy.OnNode(policy.CheckPaths, "storage.files "+p, fmt.Sprintf("this node has a %s here, and only files can be appended to, or taken as they are: give the whole contents, or name the file itself", was.Kind)))
		}
	}
	return refusals
}
