package plan

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/policy"
)

// Target says what a machine that is observed shall be when it has gone from one config to another. It is the wanted
// config on top of what is there: what a config replaces first is kept aside, and comes back when no config names it.
// Observed must cover ScopeOf(from, to).
func Target(observed host.State, from, to Wanted) host.State {
	t := &target{State: room(observed, len(to.Paths)), seen: observed, from: from, to: to, units: map[string]host.Unit{}}
	for p := range from.Paths {
		if _, kept := to.Paths[p]; !kept {
			t.leave(p)
		}
	}
	for p, e := range to.Paths {
		t.take(p, e)
	}
	for name, u := range to.Units {
		t.unmask(name, u)
	}
	(&accountTarget{t, recordsIn(observed)}).accounts()
	ownKeys(t)
	for name := range from.Units {
		if _, kept := to.Units[name]; !kept {
			t.dropUnit(name)
		}
	}
	for name, u := range to.Units {
		t.takeUnit(name, u)
	}
	t.also()
	t.OS = t.system()
	removeMade(t)
	t.makeParents()
	return t.State
}

// room is a copy of a state in which there is room for what so many paths add: their stamps are there as absent already,
// their contents are not.
func room(s host.State, paths int) host.State {
	contents := make(map[host.Digest][]byte, len(s.Contents)+paths+1)
	maps.Copy(contents, s.Contents)
	s.Contents = nil
	s = s.Clone()
	s.Contents = contents
	return s
}

// also lets the units that others name with Also follow these when they are enabled or disabled, unless a config speaks
// about them itself.
func (t *target) also() {
	done := map[string]bool{}
	names := slices.Sorted(maps.Keys(t.Units))
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		was, is := t.seen.Units[name], t.Units[name]
		if done[name] || was.Enabled == is.Enabled {
			continue
		}
		done[name] = true
		install := is.Install
		if !is.Enabled {
			install = was.Install
		}
		for _, other := range host.AlsoOf(install) {
			said := t.to.Units[other]
			_, seen := t.Units[other]
			u := t.counted(other)
			if !seen || said.Enabled != nil || said.Masked || is.Enabled && u.Install == "" {
				continue
			}
			u.Enabled = is.Enabled
			t.Units[other] = u
			names = append(names, other)
		}
	}
}

// target is a state under construction.
type target struct {
	host.State
	seen     host.State
	from, to Wanted
	// files of units in both configs, by unit, and units that are counted already.
	files map[string][]string
	units map[string]host.Unit
}

// take makes the state have a path as the new config wants it, and keeps what somebody else had there.
func (t *target) take(p string, want host.Entry) {
	is, k := t.seen.Paths[p], keptOf(t.seen, p)
	was := t.original(p, k)
	want = t.completed(p, want, was, k)
	t.Paths[p] = want
	_, ours := t.from.Paths[p]
	_, appended := t.from.Appends[p] // what was there is still in it
	_, appends := t.to.Appends[p]
	same := is == want && want.Kind != host.Dir && !appended && !appends
	if ours && !appended || k.recorded() || same {
		return
	}
	switch was.Kind {
	case host.Absent:
		if want.Kind != host.Absent {
			t.Paths[k.stampAt] = stamp
		}
	case host.File, host.Link, host.Dir:
		t.Paths[k.origAt] = was
	}
}

// kept is what the daemon knows of what was at a path before any config, and where.
type kept struct {
	origAt, stampAt string
	orig, stamp     host.Entry
}

func keptOf(seen host.State, p string) kept {
	k := kept{origAt: origPath(p), stampAt: noOrigPath(p)}
	k.orig, k.stamp = seen.Paths[k.origAt], seen.Paths[k.stampAt]
	return k
}

// recorded tells that it knows.
func (k kept) recorded() bool { return k.orig.Kind != host.Absent || k.stamp.Kind != host.Absent }

// original is what was at a path before any config. Where the machine was born with a file that is appended to, that is
// what comes before the appended bytes; of other things that it was born with, it is what the image has of them, if it
// keeps that.
func (t *target) original(p string, k kept) host.Entry {
	is := t.seen.Paths[p]
	if k.recorded() {
		return k.orig
	}
	if _, ours := t.from.Paths[p]; !ours {
		return is
	}
	tail, appended := t.from.Appends[p]
	if !appended || is.Kind != host.File {
		return pristine(t.seen, p)
	}
	head, whole := bytes.CutSuffix(t.Contents[is.Digest], tail)
	switch {
	case !whole:
		return is // somebody wrote it anew: that is all there is
	case len(head) == 0:
		return pristine(t.seen, p)
	}
	is.Digest = host.DigestOf(head)
	t.Contents[is.Digest] = head
	if image := pristine(t.seen, p); image.Kind == host.File {
		is.Mode, is.Owner = t.from.Open[p].keep(is, image)
	}
	return is
}

// pristine is what the image has at a path, on a system that keeps that.
func pristine(seen host.State, p string) host.Entry {
	if !imageKnows(seen, p) {
		return host.Entry{}
	}
	return seen.Paths[pristinePath(p)]
}

// imageKnows tells that the system keeps what the image has at a path, or that it has nothing there.
func imageKnows(seen host.State, p string) bool {
	return seen.Paths[imageMark].Kind != host.Absent && pristinePath(p) != ""
}

// completed fills in what the config leaves to the machine: what a file has before the appended bytes, and the mode and
// owner of directories and files that are there.
func (t *target) completed(p string, want, was host.Entry, k kept) host.Entry {
	if tail, appended := t.to.Appends[p]; appended && was.Kind == host.File {
		whole := slices.Concat(t.Contents[was.Digest], tail)
		want.Digest = host.DigestOf(whole)
		t.Contents[want.Digest] = whole
	}
	open, before := t.to.Open[p], Open{}
	if is := t.seen.Paths[p]; was.Kind != want.Kind && is.Kind == want.Kind && !k.recorded() {
		was, before = is, t.from.Open[p] // born with it: what that config left open too was there
	} else if was.Kind == want.Kind {
		before = Open{Mode: true, User: true, Group: true}
	}
	want.Mode, want.Owner = Open{open.Mode && before.Mode, open.User && before.User, open.Group && before.Group}.keep(was, want)
	return want
}

// stamp is the empty file that says: nothing was here.
var stamp = host.Entry{Kind: host.File, Mode: 0o644, Digest: host.DigestOf(nil)}

// leave gives a path back that the new config does not name. A directory that is still needed is as it was, or as one
// that is made on the way; one that somebody else uses is left to them when it is removed.
func (t *target) leave(p string) {
	k := keptOf(t.seen, p)
	shall := t.original(p, k)
	if t.from.Paths[p].Kind == host.Dir && shall.Kind == host.Absent && t.needs(p) {
		own, said := t.to.Parents[p]
		switch {
		case said:
			shall = own
		case k.recorded() || imageKnows(t.seen, p):
			shall = host.Entry{Kind: host.Dir, Mode: 0o755}
		default:
			return // born with it, and perhaps it was there before
		}
	}
	t.Paths[p] = shall
	t.leaveKeyDirs(p)
	if k.orig.Kind != host.Absent {
		t.Paths[k.origAt] = host.Entry{}
	}
	if k.stamp.Kind != host.Absent {
		t.Paths[k.stampAt] = host.Entry{}
	}
}

// leaveKeyDirs lets the directories go that were made for a user's keys, if nothing else is in them.
func (t *target) leaveKeyDirs(p string) {
	for dir := range policy.Parents(p) {
		_, made := t.from.Parents[dir]
		_, wanted := t.to.Paths[dir]
		if !made || !strings.Contains(dir, "/.ssh") || wanted || t.needs(dir) {
			return
		}
		t.Paths[dir] = host.Entry{}
	}
}

// needs tells that something of the new config is in a directory.
func (t *target) needs(dir string) bool {
	for q, e := range t.to.Paths {
		if q != dir && below(q, dir) && e.Kind != host.Absent {
			return true
		}
	}
	return false
}

// dropUnit is a unit that no config names any more: what pulls it in goes with its file. A unit that came from
// elsewhere, to which a config only added, goes back to the machine's preset.
func (t *target) dropUnit(name string) {
	u, w := t.counted(name), t.from.Units[name]
	own := t.Paths[UnitPath(name)].Kind != host.Absent
	switch {
	case w.HasContents && own: // the file that was there first is back; who enabled it then is not known
	case u.Install == "":
		u.Enabled = false
	case w.HasContents || w.Enabled != nil || w.Masked:
		u.Enabled = u.Preset || t.comesAlong(name)
	}
	t.Units[name] = u
}

// takeUnit decides whether a unit shall be enabled: as the config says; by preset where the config has just begun, or
// has just stopped, to say, or where the unit could not be enabled before; else as it is. What cannot be enabled is not.
func (t *target) takeUnit(name string, w WantedUnit) {
	u := t.counted(name)
	before, known := t.from.Units[name]
	byImage := u.Vendor != "" && u.Preset
	switch {
	case w.Masked: // the image's own links lead nowhere meanwhile; others go, for nothing could make them again
		u.Enabled = u.Enabled && byImage
	case u.Install == "":
		untouched := t.seen.Units[name].Install == "" && !w.HasContents
		u.Enabled = u.Enabled && (untouched || byImage) && (w.Enabled == nil || *w.Enabled)
	case bare(name, u.Install):
		u.Enabled = false
	case w.Enabled != nil:
		u.Enabled = *w.Enabled
	case !known || before.Enabled != nil || before.Masked || t.seen.Units[name].Install == "":
		u.Enabled = u.Preset || t.comesAlong(name)
	}
	t.Units[name] = u
}

// comesAlong tells that a unit which the config enables, itself or by preset, names this one with Also.
func (t *target) comesAlong(name string) bool {
	for other, w := range t.to.Units {
		enabled := w.Enabled != nil && *w.Enabled || w.Enabled == nil && t.seen.Units[other].Preset
		if enabled && !w.Masked && slices.Contains(host.AlsoOf(t.install(other)), name) {
			return true
		}
	}
	return false
}

// bare tells of a template that has no instance to be enabled: neither in its name nor by default.
func bare(name, install string) bool {
	return strings.Contains(name, "@.") && !strings.Contains("\n"+install, "\nDefaultInstance=")
}

// unmask takes a mask away that the new config says shall not be.
func (t *target) unmask(name string, w WantedUnit) {
	if is := t.seen.Paths[UnitPath(name)]; w.Unmask && !w.HasContents && is.Kind == host.Link && is.Target == "/dev/null" {
		t.Paths[UnitPath(name)] = host.Entry{}
	}
}

// system is the OS part: what the config names. A machine without an image in its config keeps the one it has. A part
// that the machine cannot change and that nobody asks to change is as it is.
func (t *target) system() host.OS {
	seen, can, old, want := t.seen.OS, t.seen.Support, t.from.OS, t.to.OS
	if want.Image == "" || !can.Image && old.Image == want.Image {
		want.Image = seen.Image
	}
	if !can.Kargs && old.Kargs == want.Kargs {
		want.Kargs = seen.Kargs
	}
	if !can.KernelType && old.KernelType == want.KernelType {
		want.KernelType = seen.KernelType
	}
	if !can.Extensions && old.Extensions == want.Extensions {
		want.Extensions = seen.Extensions
	}
	return want
}

// makeParents adds the directories that are missing above what shall be there.
func (t *target) makeParents() {
	there := make(map[string]bool, 64)
	made := map[string]host.Entry{}
	for p, e := range t.Paths {
		if e.Kind == host.Absent {
			continue
		}
		for dir := range policy.Parents(p) {
			if there[dir] {
				break // and so is all above it
			}
			there[dir] = true
			if is := t.Paths[dir]; is.Kind != host.Dir && is.Kind != host.Link {
				made[dir] = directory(dir, t.to.Parents)
			}
		}
	}
	maps.Copy(t.Paths, made)
}

// directory is one that is made for what is in it, with an owner and mode of its own where somebody says so.
func directory(dir string, said map[string]host.Entry) host.Entry {
	if own, ok := said[dir]; ok {
		return own
	}
	if below(dir, host.OrigDir) {
		return host.Entry{Kind: host.Dir, Mode: 0o700} // a path's name may be telling, and what was there may have been secret
	}
	return host.Entry{Kind: host.Dir, Mode: 0o755}
}

// WithRecord adds the record of the config in force to a state and its contents to what is wanted.
func WithRecord(s host.State, contents []byte) host.State {
	s = s.Clone()
	addRecord(s, contents)
	return s
}

// addRecord is WithRecord for a state that is nobody else's.
func addRecord(s host.State, contents []byte) {
	digest := host.DigestOf(contents)
	s.Contents[digest] = contents
	s.Paths[host.RecordPath] = host.Entry{Kind: host.File, Mode: 0o600, Digest: digest}
	for dir := range policy.Parents(host.RecordPath) {
		if is := s.Paths[dir]; is.Kind != host.Dir && is.Kind != host.Link {
			s.Paths[dir] = directory(dir, nil)
		}
	}
}
