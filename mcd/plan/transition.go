package plan

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// Transition is the change from one config to another, without a machine. The packages mcd/agent and review use a
// Transition.
type Transition struct {
	// From and To are the configs' names.
	From, To string
	// Old and New are the states that the two configs require.
	Old, New Desired
	// Decision is the disruption of the change.
	Decision disruption.Decision
	// ReferencedAccounts are the accounts that the new config names and does not create.
	ReferencedAccounts []disruption.Account
	// KeysFile is AuthorizedKeysFile of sshd, as the files of the new config set it; "" if none does.
	KeysFile string
	// Refusals are the refusals that do not depend on the machine, and the problems of New.
	Refusals []disruption.Refusal
}

// Rules are the cluster's disruption policy and overrides.
type Rules struct {
	// Policy has the disruption of each difference.
	Policy disruption.Policy
	// Overrides lift refusals.
	Overrides disruption.Overrides
}

// NewTransition returns a transition with its disruption and its refusals.
func NewTransition(from, to Config, rules Rules, accounts host.Accounts) Transition {
	a, b := disruption.Running(from.Config, to.Config)
	w := Transition{
		From: from.Name, To: to.Name, Old: DesiredOf(a, accounts), New: DesiredOf(b, accounts),
		ReferencedAccounts: disruption.AccountsNamed(b), KeysFile: disruption.KeysFileSetting(b.Ignition),
	}
	w.Decision = disruption.Decide(from.Config, to.Config, rules.Policy)
	old := from.Config
	if from.Name == "" {
		old = withFirstPaths(old, machineconfig.Flattened(to.Config))
	}
	w.Refusals = disruption.Refuse(old, to.Config, rules.Overrides)
	w.Refusals = append(w.Refusals, aboutOtherFields(w.Refusals, w.New.Problems)...)
	return w
}

// withFirstPaths returns the empty config with the directories and links of the first config. The reason is that a
// running machine refuses changes of these paths, but a machine without a config accepts the paths.
func withFirstPaths(empty, first machineconfig.Config) machineconfig.Config {
	empty.Ignition.Storage.Directories = first.Ignition.Storage.Directories
	empty.Ignition.Storage.Links = first.Ignition.Storage.Links
	return empty
}

// WithReboot returns the transition with a drain and a reboot, independently of the policy.
func (w Transition) WithReboot() Transition {
	w.Decision = w.Decision.Rebooting()
	return w
}

// Scope returns the part of the machine that has to be observed.
func (w Transition) Scope() Scope { return ScopeOf(w.Old, w.New) }

// Plan returns the steps on an observed machine. The parameter record is the content of the record of the new config.
// The result contents has the contents that the steps write, by digest.
func (w Transition) Plan(observed host.State, record []byte) (p Plan, contents map[host.Digest][]byte) {
	twice, names := refuseUnitTwice(observed, w.New), map[string]string{}
	w.Old, w.New = withUnits(observed, w.Old, nil), withUnits(observed, w.New, names)
	observed = withoutAliases(observed, w.New)
	target := Target(observed, w.Old, w.New)
	addRecord(target, record)
	refusals := append(w.refusals(observed, target), twice...)
	for i, r := range refusals {
		if name := names[strings.TrimPrefix(r.Field, "systemd.units ")]; name != "" {
			refusals[i].Field = "systemd.units " + name
		}
	}
	maps.Copy(target.Contents, w.New.Contents)
	p = Diff(observed, target, DiffOptions{
		From: w.From, To: w.To, Decision: w.Decision, Problems: refusals, Last: otherKeys(w.New),
		Linked: linkedUnits(observed, target, w.New), Gone: w.goneUnits(target),
		MergeKeys: ChangedKeys(observed, target, w.Old, w.New),
	})
	p.Notes, p.Masks = obstructedUnits(observed, target, w), masks(w.New)
	return p, target.Contents
}

// withoutAliases returns a state without the units that are only other names of units, if a config has a file of its
// own at such a name. The links and the drop-ins of the other unit are not the new one's.
func withoutAliases(observed host.State, w Desired) host.State {
	var own []string
	for name, u := range observed.Units {
		_, ours := w.Paths[UnitPath(name)]
		if ours && u.AliasOf != "" {
			own = append(own, name)
		}
	}
	if len(own) > 0 {
		observed.Units = maps.Clone(observed.Units)
	}
	for _, name := range own {
		observed.Units[name] = host.Unit{Preset: observed.Units[name].Preset}
	}
	return observed
}

// withUnits returns a config with the settings of units under the units' own names, because a unit has one state under
// all its names. A link of a user stays another unit, which nobody can enable. The map names gets the names that the
// config has instead.
func withUnits(observed host.State, w Desired, names map[string]string) Desired {
	units := maps.Clone(w.Units)
	for _, name := range slices.Sorted(maps.Keys(w.Units)) {
		u := observed.Units[name]
		if _, ours := w.Paths[UnitPath(name)]; ours || u.AliasOf == "" || u.Obstacle.Why == host.UnitAlias {
			continue
		}
		delete(units, name)
		is, twice := units[u.AliasOf]
		if !twice {
			is = w.Units[name]
			if names != nil {
				names[u.AliasOf] = name
			}
		}
		if is.Enabled == nil {
			is.Enabled = w.Units[name].Enabled
		}
		units[u.AliasOf] = is
	}
	w.Units = units
	return w
}

// linkedUnits returns the units that a config enables, and of which the update removes a link that enables them too, or
// leads it elsewhere. The link is that of an earlier config, beside its units. The daemon then makes all links anew.
func linkedUnits(observed, target host.State, w Desired) map[string]bool {
	all := map[string]bool{}
	for p, is := range observed.Paths {
		if is.Kind != host.Link || is == target.Paths[p] {
			continue
		}
		for _, name := range disruption.UnitsEnabledBy(p, is.Target) {
			all[name] = all[name] || enables(w, name)
		}
	}
	return all
}

// goneUnits returns the units of which the old config has the file, and of which the machine has none after the update.
func (w Transition) goneUnits(target host.State) map[string]bool {
	gone := map[string]bool{}
	for name, u := range w.Old.Units {
		is, known := target.Units[name]
		if u.HasContents && known && is.Obstacle.Why == host.UnitMissing {
			gone[name] = true
		}
	}
	return gone
}

// masks returns the files of units that a config masks, by path.
func masks(w Desired) map[string]bool {
	all := map[string]bool{}
	for p, e := range w.Paths {
		if path.Dir(p) == host.UnitDir && host.IsMask(p, e) {
			all[p] = true
		}
	}
	return all
}

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

// withRoom copies a state, with capacity for the contents of the given number of additional paths.
func withRoom(s host.State, paths int) host.State {
	contents := make(map[host.Digest][]byte, len(s.Contents)+paths+1)
	maps.Copy(contents, s.Contents)
	s.Contents = nil
	s = s.Clone()
	s.Contents = contents
	return s
}

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

// stamp is the empty file that marks a path that did not exist before any config.
var stamp = host.Entry{Kind: host.File, Mode: 0o600, Digest: host.DigestOf(nil)}

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
