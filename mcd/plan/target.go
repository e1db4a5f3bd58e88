package plan

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Target returns the state of a machine after the update from one config to another. Target contains the observed state
// with the changes of the new config, the stored originals, and the restored originals. The parameter observed must
// cover ScopeOf(from, to).
func Target(observed host.State, from, to Desired) host.State {
	t := &target{
		State: withRoom(observed, len(to.Paths)), seen: observed, from: from, to: to,
		units: map[string]host.Unit{},
	}
	for p := range from.Paths {
		if _, kept := to.Paths[p]; !kept {
			t.restorePath(p)
		}
	}
	for p, e := range to.Paths {
		t.replacePath(p, e)
	}
	for name, u := range to.Units {
		t.unmask(name, u)
	}
	(&accountTarget{t.State, observed, from, to, recordsIn(observed)}).accounts()
	t.setKeyOwners()
	t.keepMergedMode()
	t.setUnits()
	t.OS = t.osTarget()
	t.removeMade()
	t.makeParents()
	return t.State
}

// unmask removes a mask if the new config says mask: false.
func (t *target) unmask(name string, w Unit) {
	at := UnitPath(name)
	if w.Unmask && !w.HasContents && host.IsMask(at, t.Paths[at]) {
		t.Paths[at] = host.Entry{}
	}
}

// setUnits decides which units are enabled, and records how the units were before.
func (t *target) setUnits() {
	t.earlier = unitRecords(t.seen)
	for name := range t.from.Units {
		if _, kept := t.to.Units[name]; !kept {
			t.restoreUnit(name)
		}
	}
	for name, u := range t.to.Units {
		t.setUnit(name, u)
	}
	t.enableAlso()
	t.writeUnitRecords()
}

// writeUnitRecords writes the records if they changed, and removes the file if they are empty.
func (t *target) writeUnitRecords() {
	text, err := json.Marshal(t.earlier)
	switch {
	case err != nil || maps.Equal(t.earlier, unitRecords(t.seen)):
	case len(t.earlier) == 0:
		t.Paths[host.UnitsPath] = host.Entry{}
	default:
		d := host.DigestOf(text)
		t.Paths[host.UnitsPath] = host.Entry{Kind: host.File, Mode: 0o600, Digest: d}
		t.Contents[d] = text
	}
}

// enableAlso enables or disables the units of Also= together with the unit that names them, unless the config names
// them itself.
func (t *target) enableAlso() {
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
			if t.enableWith(other, is.Enabled, decides(t.to.Units[name])) {
				names = append(names, other)
			}
		}
	}
}

// enableWith enables or disables a unit of Also=, and reports whether it has changed the unit. If the new config does
// not decide about the unit that names this unit in Also=, this unit returns to its earlier state too.
func (t *target) enableWith(name string, enabled, decided bool) bool {
	said := t.to.Units[name]
	_, seen := t.Units[name]
	u := t.unitAfter(name)
	if !seen || said.Enabled != nil || said.Masked || enabled && u.Obstacle.Why != "" {
		return false
	}
	was, known := t.earlier[name]
	if u.Enabled = enabled; decided {
		t.recordUnit(name)
	} else if known && !decides(said) {
		u.Enabled = was && u.Install != ""
		delete(t.earlier, name)
	}
	t.Units[name] = u
	return true
}

// setKeyOwners sets the owner of SSH keys to the users after the update, whose primary group may change.
func (t *target) setKeyOwners() {
	if t.seen.Accounts.Unprivileged {
		return
	}
	for _, w := range t.to.Users {
		p := t.to.At(t.to.Keys[w.Name].Path)
		u, e := t.Users[w.Name], t.to.Paths[p]
		if _, keys := t.to.Parents[path.Dir(p)]; keys && u.There && e.Kind == host.File &&
			e.Owner == w.Account.Owner() {
			e.Owner = u.Owner()
			t.Paths[p] = e
		}
	}
}

// removeMade removes the directories that the daemon created for the current config below a path at which the new
// config has a file or a link. The host does not remove a directory with entries.
func (t *target) removeMade() {
	for p, want := range t.to.Paths {
		if want.Kind == host.Dir || want.Kind == host.Absent || t.seen.Paths[p].Kind != host.Dir {
			continue
		}
		for made := range t.from.Paths {
			for dir := range disruption.Parents(made) {
				_, kept := t.to.Paths[dir]
				if below(dir, p) && dir != p && !kept && t.Paths[dir].Kind == host.Dir {
					t.Paths[dir] = host.Entry{}
				}
			}
		}
	}
}

// withRoom copies a state, with capacity for the contents of the given number of additional paths.
func withRoom(s host.State, paths int) host.State {
	contents := make(map[host.Digest][]byte, len(s.Contents)+paths+1)
	maps.Copy(contents, s.Contents)
	s.Contents = nil
	s = s.Clone()
	s.Contents = contents
	return s
}

// target is the state of a machine after an update, while Target computes it.
type target struct {
	host.State
	seen     host.State
	from, to Desired
	// files has the unit files and drop-ins of both configs, by unit. units has the result of unitAfter.
	files map[string][]string
	units map[string]host.Unit
	// earlier has the units that configs enabled or disabled, and whether each was enabled before any config.
	earlier map[string]bool
}

// replacePath sets a path as the new config wants it, and stores its original.
func (t *target) replacePath(p string, want host.Entry) {
	is, k := t.seen.Paths[p], recordOfOriginal(t.seen, p)
	was := t.original(p, k)
	want = t.complete(p, want, was, k)
	t.Paths[p] = want
	_, ours := t.from.Paths[p]
	_, appended := t.from.Appends[p] // The stored original of the file is still valid.
	_, appends := t.to.Appends[p]
	same := is == want && want.Kind != host.Dir && !appended && !appends
	if ours && !appended || k.isKnown() || same || !appends && isDefault(t.seen, p, was) {
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

// originalRecord has the data that the daemon stored about the original of a path. orig is the original. stamp marks a
// path that did not exist.
type originalRecord struct {
	origAt, stampAt string
	orig, stamp     host.Entry
}

func recordOfOriginal(seen host.State, p string) originalRecord {
	k := originalRecord{origAt: origPath(p), stampAt: noOrigPath(p)}
	k.orig, k.stamp = seen.Paths[k.origAt], seen.Paths[k.stampAt]
	return k
}

// isKnown reports whether the daemon stored data about the original of the path.
func (k originalRecord) isKnown() bool {
	return k.orig.Kind != host.Absent || k.stamp.Kind != host.Absent
}

// original returns the entry at a path before any config. For a file that has appended parts since the first boot, the
// original is the content before these parts. For another path of the first config, the original is the entry of the
// image.
func (t *target) original(p string, k originalRecord) host.Entry {
	is := t.seen.Paths[p]
	if k.isKnown() {
		return k.orig
	}
	if _, ours := t.from.Paths[p]; !ours {
		return is
	}
	tail, appended := t.from.Appends[p]
	if !appended || is.Kind != host.File {
		return imageEntry(t.seen, p)
	}
	head, whole := bytes.CutSuffix(t.Contents[is.Digest], tail)
	switch {
	case !whole:
		return is // A user has replaced the file.
	case len(head) == 0:
		return imageEntry(t.seen, p)
	}
	is.Digest = host.DigestOf(head)
	t.Contents[is.Digest] = head
	if image := imageEntry(t.seen, p); image.Kind == host.File {
		is.Mode, is.Owner = t.from.Unset[p].Fill(is, image)
	}
	return is
}

// imageEntry returns the entry of the image at a path; the zero Entry on a system without /usr/etc.
func imageEntry(seen host.State, p string) host.Entry {
	if !isInImage(seen, p) {
		return host.Entry{}
	}
	return seen.Paths[imagePath(p)]
}

// isDefault reports whether an entry is what the image has at the path. The daemon stores no original of it: without
// the config, the machine shall have what its image of that time has, and not what an earlier image had.
func isDefault(seen host.State, p string, e host.Entry) bool {
	return e.Kind != host.Absent && isInImage(seen, p) && imageEntry(seen, p) == e
}

// isInImage reports whether /usr/etc has the image's entry for the path.
func isInImage(seen host.State, p string) bool {
	return seen.Paths[host.ImageMark].Kind != host.Absent && imagePath(p) != ""
}

// complete sets the attributes that the config does not set: the content before appended bytes, and the mode and owner
// of existing files and directories.
func (t *target) complete(p string, want, was host.Entry, k originalRecord) host.Entry {
	if tail, appended := t.to.Appends[p]; appended && was.Kind == host.File {
		whole := slices.Concat(t.Contents[was.Digest], tail)
		want.Digest = host.DigestOf(whole)
		t.Contents[want.Digest] = whole
	}
	open, before := t.to.Unset[p], Unset{}
	if is := t.seen.Paths[p]; was.Kind != want.Kind && is.Kind == want.Kind && !k.isKnown() {
		was, before = is, t.from.Unset[p] // The path is from the first boot, so the unset attributes existed before.
	} else if was.Kind == want.Kind {
		before = Unset{Mode: true, User: true, Group: true}
	}
	want.Mode, want.Owner = Unset{
		Mode: open.Mode && before.Mode, User: open.User && before.User,
		Group: open.Group && before.Group,
	}.Fill(was, want)
	return want
}

// stamp is the empty file that marks a path that did not exist before any config.
var stamp = host.Entry{Kind: host.File, Mode: 0o600, Digest: host.DigestOf(nil)}

// restorePath restores the original of a path that the new config does not name. A directory that other paths of the
// new config need gets its original or default mode and owner. The host does not remove a directory with entries.
func (t *target) restorePath(p string) {
	k := recordOfOriginal(t.seen, p)
	shall := t.original(p, k)
	if t.from.Paths[p].Kind == host.Dir && shall.Kind == host.Absent && t.hasWanted(p) {
		own, said := t.to.Parents[p]
		switch {
		case said:
			shall = own
		case k.isKnown() || isInImage(t.seen, p):
			shall = host.Entry{Kind: host.Dir, Mode: 0o755}
		default:
			return // The path is from the first boot, so it may have existed before.
		}
	}
	t.Paths[p] = shall
	t.removeKeyDirs(p)
	if k.orig.Kind != host.Absent {
		t.Paths[k.origAt] = host.Entry{}
	}
	if k.stamp.Kind != host.Absent {
		t.Paths[k.stampAt] = host.Entry{}
	}
}

// removeKeyDirs removes the directories that were created for a user's SSH keys, if they are empty.
func (t *target) removeKeyDirs(p string) {
	for dir := range disruption.Parents(p) {
		_, made := t.from.Parents[dir]
		_, wanted := t.to.Paths[dir]
		if !made || !strings.Contains(dir, "/.ssh") || wanted || t.hasWanted(dir) {
			return
		}
		t.Paths[dir] = host.Entry{}
	}
}

// hasWanted reports whether a path of the new config is in a directory.
func (t *target) hasWanted(dir string) bool {
	for q, e := range t.to.Paths {
		if q != dir && below(q, dir) && e.Kind != host.Absent {
			return true
		}
	}
	return false
}

// osTarget returns the OS as the config wants it. If the config has no image, the machine's image stays. A part of the
// OS that the machine cannot change stays too, if the configs do not differ in this part. The machine's own kernel
// arguments stay if it cannot change them.
func (t *target) osTarget() host.OS {
	seen, can, old, want := t.seen.OS, t.seen.Support, t.from.OS, t.to.OS
	if want.Image == "" || !can.Image && old.Image == want.Image {
		want.Image = seen.Image
	}
	if own := host.OwnArgs(can.OwnKargs, old.Kargs, want.Kargs); len(own) > 0 {
		want.Kargs = host.JoinArgs(append(own, host.MissingArgs(own, host.SplitArgs(want.Kargs))...))
	}
	if !can.Kargs && old.Kargs == t.to.OS.Kargs {
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

// makeParents adds the missing directories above the paths of the state.
func (t *target) makeParents() {
	there := make(map[string]bool, 64)
	made := map[string]host.Entry{}
	for p, e := range t.Paths {
		if e.Kind == host.Absent {
			continue
		}
		for dir := range disruption.Parents(p) {
			if there[dir] {
				break // This directory exists, and so do all directories above it.
			}
			there[dir] = true
			if is := t.Paths[dir]; is.Kind != host.Dir && is.Kind != host.Link {
				made[dir] = directory(dir, t.to.Parents)
			}
		}
	}
	maps.Copy(t.Paths, made)
}

// directory returns a directory to create above other paths. directory uses the owner and mode in the parameter said,
// if there are any.
func directory(dir string, said map[string]host.Entry) host.Entry {
	if own, ok := said[dir]; ok {
		return own
	}
	if below(dir, host.OrigDir) || below(dir, host.NoOrigDir) {
		// Only root may read this directory, because the originals, and even the names of files, may be secret.
		return host.Entry{Kind: host.Dir, Mode: 0o700}
	}
	return host.Entry{Kind: host.Dir, Mode: 0o755}
}

// WithRecord returns a state with the record of the config in force.
func WithRecord(s host.State, contents []byte) host.State {
	s = s.Clone()
	addRecord(s, contents)
	return s
}

// addRecord adds the record to a state, which it changes.
func addRecord(s host.State, contents []byte) {
	digest := host.DigestOf(contents)
	s.Contents[digest] = contents
	s.Paths[host.RecordPath] = host.Entry{Kind: host.File, Mode: 0o600, Digest: digest}
	for dir := range disruption.Parents(host.RecordPath) {
		if is := s.Paths[dir]; is.Kind != host.Dir && is.Kind != host.Link {
			s.Paths[dir] = directory(dir, nil)
		}
	}
}
