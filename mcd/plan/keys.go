package plan

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// KeysInForce returns the state of a config in force with the SSH keys where the machine has them. That is the other
// path if Ignition or an earlier operating system of the machine wrote the keys there, and no update has moved them
// since. The function look is as for Place.
func KeysInForce(s Desired, look func(p string) (host.Entry, error)) (Desired, error) {
	m := placer{look: look, seen: map[string]host.Entry{}}
	s = m.keysInForce(s)
	return s, m.err
}

// keysInForce is KeysInForce with the placer's memory.
func (m *placer) keysInForce(s Desired) Desired {
	for _, user := range slices.Sorted(maps.Keys(s.Keys)) {
		k := s.Keys[user]
		if _, named := s.Paths[k.Other]; !named && m.areElsewhere(k, s.Paths[k.Path].Digest) {
			s = s.KeysElsewhere(user)
		}
	}
	return s
}

// areElsewhere reports whether the machine has the keys of a user at the other path. A file that a user made at either
// path counts only if it has the content of the config, and then only if nothing else can be the file of the config.
func (m *placer) areElsewhere(k KeysFile, content host.Digest) bool {
	plain, fragment := k.Path, k.Other
	if isFragment(k.Path) {
		plain, fragment = k.Other, k.Path
	}
	has := m.now(fragment).Kind == host.File
	same := m.now(plain).Kind == host.File && m.now(plain).Digest == content
	if isFragment(k.Path) {
		return m.isStored(plain) || same && !has
	}
	return has && !m.isStored(plain) && (m.isStored(fragment) || !same)
}

func isFragment(p string) bool { return path.Base(p) == path.Base(distribution.KeysFragment) }

// isStored reports whether the daemon has stored the original of a path, so that it wrote the path itself.
func (m *placer) isStored(p string) bool {
	p = m.resolve(p)
	return m.now(origPath(p)).Kind != host.Absent || m.now(noOrigPath(p)).Kind != host.Absent
}

// ownIgnitionKeys adds to the state before any config the files in which Ignition has written exactly the keys of the
// first one at their other path.
func (m *placer) ownIgnitionKeys(old, first Desired) Desired {
	for _, k := range first.Keys {
		is := m.now(k.Other)
		if isFragment(k.Other) && is.Kind == host.File && is.Digest == first.Paths[k.Path].Digest {
			old.Paths, old.Parents = maps.Clone(old.Paths), maps.Clone(old.Parents)
			old.Paths[k.Other], old.Parents[path.Dir(k.Other)] = is, first.Parents[path.Dir(k.Path)]
		}
	}
	return old
}

// otherKeys returns the paths at which a machine with another sshd would have the keys of a placed config, and the
// directory that only such a path needs. They change after everything else: whoever loses a key file has the other one
// already.
func otherKeys(to Desired) map[string]bool {
	others := map[string]bool{}
	for _, k := range to.Keys {
		others[to.At(k.Other)] = true
		if isFragment(k.Other) {
			others[path.Dir(to.At(k.Other))] = true
		}
	}
	return others
}

// ChangedKeys returns the users for whom a program of the machine must merge SSH keys, because the file of a config
// differs between two states of the machine.
func ChangedKeys(is, shall host.State, configs ...Desired) (users []string) {
	for _, c := range configs {
		for user, k := range c.Keys {
			at := c.At(k.Path)
			u, known := shall.Users[user]
			if c.MergesKeys && (u.There || !known) && is.Paths[at].Digest != shall.Paths[at].Digest &&
				!slices.Contains(users, user) {
				users = append(users, user)
			}
		}
	}
	slices.Sort(users)
	return users
}

// WrittenKeys returns the users whose SSH keys a plan writes. If the plan also changes the settings of sshd, the result
// is all users with keys, and changes is true: the machine cannot say yet what sshd will read.
func (p Plan) WrittenKeys(w Desired) (users []string, changes bool) {
	written := map[string]bool{}
	for _, s := range p.Steps {
		changes = changes || s.IsPath() && disruption.IsSSHDConfig(s.Target)
		written[s.Target] = s.IsPath() && s.After.Entry.Kind == host.File
	}
	for _, user := range slices.Sorted(maps.Keys(w.Keys)) {
		if changes || written[w.At(w.Keys[user].Path)] {
			users = append(users, user)
		}
	}
	return users, changes
}

// UnreadKeys returns why sshd does not accept the SSH keys of a user, as text for people; "" if it does.
func (w Desired) UnreadKeys(user string, uid int, is host.SSHSettings) string {
	at := w.Keys[user].Path
	home := strings.TrimSuffix(strings.TrimSuffix(at, distribution.KeysFragment), distribution.KeysFile)
	command := isFragment(at) && !w.MergesKeys
	if isFragment(at) && w.MergesKeys {
		at = path.Join(home, distribution.KeysFile)
	}
	expand := strings.NewReplacer("%%", "%", "%h", path.Clean(home), "%u", user, "%U", strconv.Itoa(uid))
	for _, file := range strings.Fields(is.KeysFile) {
		if file = expand.Replace(file); !path.IsAbs(file) {
			file = path.Join(home, file)
		}
		if path.Clean(file) == at {
			return ""
		}
	}
	text := fmt.Sprintf("the sshd of this node does not read the SSH keys of %s in %s: ", user, at)
	if !command {
		return text + fmt.Sprintf("its AuthorizedKeysFile is %s. Add %s to it", is.KeysFile, distribution.KeysFile)
	}
	for _, reader := range distribution.KeysCommands() {
		if program, _, _ := strings.Cut(is.KeysCommand, " "); program == reader {
			return ""
		}
	}
	return text + fmt.Sprintf("its AuthorizedKeysCommand is %s. Set it to %s %%u", is.KeysCommand,
		strings.Join(distribution.KeysCommands(), " or "))
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

// keepMergedMode keeps the mode that the program which merges SSH keys gave a file of the config, unless the mode lets
// others write.
func (t *target) keepMergedMode() {
	for _, k := range t.to.Keys {
		at := t.to.At(k.Path)
		is, want := t.seen.Paths[at], t.Paths[at]
		if t.to.MergesKeys && is.Kind == host.File && is.Digest == want.Digest && is.Mode&0o022 == 0 {
			want.Mode = is.Mode
			t.Paths[at] = want
		}
	}
}

// MoveKeys returns the steps that move the SSH keys of the config in force to where the machine's sshd reads them now,
// and the contents that they write. The parameter w is a placed transition from the config to itself. The plan is empty
// if nothing moves, or if the file to move is not as the config says: that is drift. Other differences stay.
func MoveKeys(observed host.State, w Transition) (p Plan, contents map[host.Digest][]byte) {
	old, want := keysOnly(w.Old, observed), keysOnly(w.New, observed)
	for user, is := range w.Old.Keys {
		if from, to := w.Old.At(is.Path), w.New.Keys[user]; to.Path != is.Path &&
			observed.Paths[from] == w.Old.Paths[from] {
			if !w.New.MergesKeys { // Otherwise the program replaces the file.
				old.Paths[from] = w.Old.Paths[from]
			}
			at := w.New.At(to.Path)
			want.Paths[at], want.Keys[user] = w.New.Paths[at], to
		}
	}
	if len(want.Paths) == 0 {
		return Plan{}, nil
	}
	way := Transition{From: w.From, To: w.To, Old: old, New: want}
	target := Target(observed, old, want)
	maps.Copy(target.Contents, want.Contents)
	refusals := slices.Concat(refuseUnsafe(observed, way), refuseReplacedByDirs(observed, target, way),
		refuseUsedDirs(target, way))
	return Diff(observed, target, DiffOptions{
		From: w.From, To: w.To, Problems: refusals, Last: otherKeys(want),
		MergeKeys: ChangedKeys(observed, target, old, want),
	}), target.Contents
}

// keysOnly returns a placed state without everything but what a move of keys needs.
func keysOnly(s Desired, observed host.State) Desired {
	return Desired{
		Paths: map[string]host.Entry{}, Parents: s.Parents, Keys: map[string]KeysFile{}, Places: s.Places,
		Contents: s.Contents, OS: observed.OS, MergesKeys: s.MergesKeys,
	}
}
