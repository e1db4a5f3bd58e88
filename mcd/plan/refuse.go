package plan

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// refusals returns every reason of the machine not to apply the transition, with the paths as the configs write them.
func (w Transition) refusals(observed, target host.State) []disruption.Refusal {
	found := slices.Concat(refuseUnsafe(observed, w), refuseForeignHomes(observed, target, w),
		refuseReplacedByDirs(observed, target, w), refuseAppends(observed, target, w.New), refuseOverwrites(target, w),
		refuseHardLinks(target, w.New), refuseNewIDs(observed, target),
		refuseRemovedAccounts(target, w.ReferencedAccounts), refuseUsedDirs(target, w),
		refuseObstructedUnits(observed, target, w))
	for i := range found {
		found[i].Field = w.spelled(found[i].Field)
	}
	return append(slices.Clone(w.Refusals), aboutOtherFields(w.Refusals, found)...)
}

// refuseUnsafe refuses paths that a user of the machine could redirect to files of another owner.
func refuseUnsafe(observed host.State, w Transition) (refusals []disruption.Refusal) {
	for p, why := range observed.Unsafe {
		_, wanted := w.New.Paths[p]
		_, had := w.Old.Paths[p]
		if wanted || had {
			refusals = append(refusals, disruption.OnNode(disruption.CheckOwners, p, why))
		}
	}
	return sortRefusals(refusals)
}

// refuseForeignHomes refuses SSH keys for a user whose home directory belongs to another user. refuseForeignHomes does
// not refuse keys of the current config.
func refuseForeignHomes(observed, target host.State, w Transition) (refusals []disruption.Refusal) {
	if observed.Accounts.Unprivileged {
		return nil
	}
	for _, u := range w.New.Users {
		keys, wanted := w.New.Keys[u.Name]
		home, owner := w.New.At(u.Account.Home), target.Users[u.Name].UID
		_, had := w.Old.Paths[w.Old.At(keys.Path)]
		_, moves := w.Old.Paths[w.Old.At(keys.Other)]
		if !wanted || had || moves || !target.Users[u.Name].There {
			continue
		}
		at := home
		for range host.MaxLinks {
			if observed.Paths[at].Kind != host.Link {
				break
			}
			at = host.LinkTarget(at, observed.Paths[at].Target)
		}
		is := observed.Paths[at]
		var why string
		switch {
		case is.Kind == host.Unsafe:
			why = observed.Unsafe[at]
		case is.Kind == host.Absent && at == home, is.Kind == host.Dir && is.Owner.UID == owner:
			continue
		case is.Kind == host.Dir:
			why = fmt.Sprintf("the home directory of %s belongs to uid %d and not to uid %d; give it to that user "+
				"(chown), or name another home directory", u.Name, is.Owner.UID, owner)
		default:
			why = fmt.Sprintf("the home directory of %s is a link that leads to no directory; make the directory, or "+
				"name another home directory", u.Name)
		}
		if at != home && is.Kind == host.Dir {
			why = fmt.Sprintf("it is a link to %s; %s", at, why)
		}
		refusals = append(refusals, disruption.OnNode(disruption.CheckOwners, "passwd.users "+u.Name+" "+u.Account.Home,
			why))
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

// refuseObstructedUnits refuses a config that enables a unit which a user of the machine has masked, for example. If
// the present config enabled the unit already, this is drift, for which the node's DriftPolicy counts.
func refuseObstructedUnits(observed, target host.State, w Transition) (refusals []disruption.Refusal) {
	for _, name := range slices.Sorted(maps.Keys(w.New.Units)) {
		if o := Obstructed(observed, target, w.New, name); o.Why != "" && !isDrift(observed, w, name, o) {
			refusals = append(refusals, disruption.OnNode(disruption.CheckUnits, "systemd.units "+name,
				"the config enables it, and on this node it "+o.Problem()+": "+o.Advice(name)))
		}
	}
	return refusals
}

// refuseUnitTwice refuses a config with different settings for two names of one unit.
func refuseUnitTwice(observed host.State, to Desired) (refusals []disruption.Refusal) {
	for _, name := range slices.Sorted(maps.Keys(to.Units)) {
		of := observed.Units[name].AliasOf
		is, other := to.Units[name], to.Units[of]
		if of == "" || is.Enabled == nil || other.Enabled == nil && !other.Masked ||
			*is.Enabled == enables(to, of) {
			continue
		}
		refusals = append(refusals, disruption.OnNode(disruption.CheckUnits, "systemd.units "+name,
			fmt.Sprintf("on this node it is another name of %s, for which the config has another setting: keep one of "+
				"them", of)))
	}
	return refusals
}

func isDrift(observed host.State, w Transition, name string, o host.Obstacle) bool {
	return enables(w.Old, name) && observed.Units[name].Obstacle == o
}

// Obstructed returns what a user or a program of the machine did so that a unit of the config is not enabled; the zero
// Obstacle if the unit is as its config says. The state is a target for this config. Units of the image that systemd
// cannot enable are as on a new machine, so they are no obstacle here. The links that enable a unit have no effect
// while it is masked.
func Obstructed(observed, target host.State, w Desired, name string) host.Obstacle {
	o := target.Units[name].Obstacle
	stays := observed.Units[name].Enabled && target.Units[name].Enabled
	if _, own := w.Paths[o.At]; own || !enables(w, name) || !o.IsLocal() || o.Why != host.UnitMasked && stays {
		return host.Obstacle{}
	}
	return o
}

// obstructedUnits names the units that the config enables and that the machine cannot enable. systemd itself says
// nothing about a preset for a unit that does not exist, so a typing error would stay unseen. The review names units
// whose own contents have no [Install].
func obstructedUnits(observed, target host.State, w Transition) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(w.New.Units)) {
		o := target.Units[name].Obstacle
		_, own := w.New.Paths[o.At]
		if o.Why == "" || own || !enables(w.New, name) || w.New.Units[name].HasContents && !o.IsLocal() ||
			observed.Units[name].Enabled && o.Why == host.UnitStatic {
			continue
		}
		notes = append(notes, "unit "+name+" "+o.Problem()+", so it cannot be enabled: "+o.Advice(name))
	}
	return notes
}

// enables reports whether a config enables a unit. A unit that the config masks is not enabled.
func enables(w Desired, name string) bool {
	u := w.Units[name]
	return u.Enabled != nil && *u.Enabled && !u.Masked
}

// spelled returns the field of a refusal with the path as a config writes it.
func (w Transition) spelled(field string) string {
	list, p, is := strings.Cut(field, " /")
	if p = "/" + p; !is {
		list, p = "", field
	}
	name := w.New.Spelling(p)
	if name == p {
		name = w.Old.Spelling(p)
	}
	return strings.TrimPrefix(list+" "+name, " ")
}

// aboutOtherFields returns the refusals in more whose fields have no refusal in already. One reason for each field is
// enough.
func aboutOtherFields(already, more []disruption.Refusal) []disruption.Refusal {
	return slices.DeleteFunc(slices.Clone(more), func(r disruption.Refusal) bool {
		return r.Field != "" && slices.ContainsFunc(already,
			func(o disruption.Refusal) bool { return o.Field == r.Field })
	})
}

// sortRefusals sorts refusals by field.
func sortRefusals(refusals []disruption.Refusal) []disruption.Refusal {
	slices.SortFunc(refusals, func(a, b disruption.Refusal) int { return strings.Compare(a.Field, b.Field) })
	return refusals
}
