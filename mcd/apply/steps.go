package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// stepper makes single steps on a host. What they write comes from the contents of the plan or, in a rollback, from the
// store.
type stepper struct {
	host     host.Host
	contents map[host.Digest][]byte
}

// do makes one step. The parameter is has the present entry at the step's path, if the step has a path.
func (t stepper) do(ctx context.Context, s host.Step, is host.Entry) error {
	switch s.Verb {
	case host.Enable:
		return t.host.Units.Enable(ctx, s.Target)
	case host.Disable:
		return t.host.Units.Disable(ctx, s.Target)
	case host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions:
		return t.host.OS.Stage(ctx, s)
	case host.SetUser, host.DropUser:
		password, err := t.read(s.After.User.Password)
		if err != nil {
			return err
		}
		return t.host.Passwd.SetUser(ctx, s.Target, s.After.User, password)
	case host.SetGroup, host.DropGroup:
		return t.host.Passwd.SetGroup(ctx, s.Target, s.After.Group)
	case host.MergeKeys:
		if t.host.MergeKeys == nil {
			return nil
		}
		return t.host.MergeKeys(ctx, s.Target)
	case host.UpdateTrust:
		return t.host.Trust.Update(ctx, s.Target)
	case host.DaemonReload:
		return t.host.Units.DaemonReload(ctx)
	case host.Reload:
		return t.host.Units.Reload(ctx, s.Target)
	case host.Restart:
		return t.host.Units.Restart(ctx, s.Target)
	case host.Stop:
		return t.host.Units.Stop(ctx, s.Target)
	}
	if s.IsPath() {
		return t.place(s, is)
	}
	return fmt.Errorf("no step has the verb %q", s.Verb)
}

// place sets a path to the step's value. To replace a directory by a file, or a file by a directory, place first
// removes the old entry. A rollback works after the removal, and also after both changes.
func (t stepper) place(s host.Step, is host.Entry) error {
	files, want := t.host.Files, s.After.Entry
	// A hard link is created even if the entry is equal, because the target of the link may be another file by now; a
	// link that stays, because an earlier step removes it.
	if is == want && want.Kind != host.Hard && s.Before != s.After {
		return nil
	}
	if is.Kind == host.Other {
		return errors.New("it is a device, pipe or socket, which no config made: move it away")
	}
	if want.Kind == host.Absent {
		err := files.Remove(s.Target)
		if is.Kind == host.Dir && errors.Is(err, host.ErrNotEmpty) {
			return nil // A user has put files into the directory, so it stays.
		}
		return err
	}
	if is.Kind != host.Absent && (is.Kind == host.Dir) != (want.Kind == host.Dir) {
		if err := files.Remove(s.Target); err != nil {
			return err
		}
	}
	switch want.Kind {
	case host.Dir:
		return files.Mkdir(s.Target, want)
	case host.Link, host.Hard:
		return files.Link(s.Target, want)
	}
	if downloaded, err := t.isDownloaded(want.Digest); err != nil {
		return err
	} else if downloaded {
		return t.host.Contents.Write(s.Target, want)
	}
	contents, err := t.read(want.Digest)
	if err != nil {
		return err
	}
	return files.Write(s.Target, want, contents)
}

// keep stores all data that the steps replace, so that a rollback needs nothing else, and checks that the steps have
// all contents.
func (t stepper) keep(ctx context.Context, steps []host.Step) error {
	var old []host.Old
	kept := map[host.Digest]bool{"": true, host.DigestOf(nil): true}
	for _, s := range steps {
		if !utf8.ValidString(s.Before.Entry.Target) {
			return fmt.Errorf("keeping %s: it is a link whose target is not text, which the journal cannot "+
				"hold: move it away", s.Target)
		}
		d := digest(s.Before)
		switch {
		case s.IsPath() && s.Before.Entry.Kind == host.File:
			downloaded, err := t.isDownloaded(d)
			if err != nil {
				return err
			}
			old = append(old, host.Old{Path: s.Target, Digest: d, Downloaded: downloaded})
		case !kept[d]:
			password, err := replaced(ctx, t.host, s)
			if err != nil {
				return fmt.Errorf("keeping the password of %s: %w", s.Target, err)
			}
			old = append(old, host.Old{Digest: d, Contents: password})
		}
		kept[d] = true
	}
	for _, s := range steps {
		d := digest(s.After)
		if kept[d] || t.contents[d] != nil {
			continue
		}
		if downloaded, err := t.isDownloaded(d); err != nil || !downloaded {
			return errors.Join(err, fmt.Errorf("%s: its contents are missing", s))
		}
	}
	if err := t.host.Store.Keep(old); err != nil {
		return fmt.Errorf("keeping what is replaced: %w", err)
	}
	return nil
}

// isDownloaded reports whether the host's content store has contents.
func (t stepper) isDownloaded(d host.Digest) (bool, error) {
	if t.host.Contents == nil || d == "" || d == host.DigestOf(nil) {
		return false, nil
	}
	_, has, err := t.host.Contents.Size(d)
	var at *fs.PathError
	if errors.As(err, &at) { // The path has the digest, and the contents may be a secret.
		err = at.Err
	}
	if err != nil {
		return false, fmt.Errorf("looking for downloaded contents: %w", err)
	}
	return has, nil
}

// read returns contents: those of the plan or, in a rollback and for files that are moved or restored, those of the
// store.
func (t stepper) read(d host.Digest) ([]byte, error) {
	if now, ok := t.contents[d]; ok {
		return now, nil
	}
	if d == "" || d == host.DigestOf(nil) {
		return nil, nil
	}
	kept, err := t.host.Store.Get(d)
	if err != nil {
		// without the digest, because the contents may be secret
		return nil, fmt.Errorf("reading kept contents: %w", err)
	}
	return kept, nil
}

// digest returns the digest of the stored data of a value: a file's contents, or the hash of a user's password. digest
// returns "" if there is no such data.
func digest(v host.Value) host.Digest {
	if v.User.There {
		return v.User.Password
	}
	return v.Entry.Digest
}

// replaced reads the password hash of a user whom a step changes.
func replaced(ctx context.Context, h host.Host, s host.Step) ([]byte, error) {
	_, password, err := h.Passwd.User(ctx, s.Target)
	if err == nil && host.DigestOf(password) != digest(s.Before) {
		err = errors.New("it has changed since the observation")
	}
	return password, err
}

// FailedStepText lists the commands that show why a step failed.
func FailedStepText(s *host.Step) string {
	switch {
	case s == nil:
		return "see the daemon's log"
	case s.Verb == host.Reload, s.Verb == host.Restart, s.Verb == host.Stop, s.Verb == host.Enable,
		s.Verb == host.Disable:
		return fmt.Sprintf("see journalctl -u %s and systemctl cat %s on the node", s.Target, s.Target)
	case s.Verb == host.DaemonReload:
		return "see journalctl -b _PID=1 on the node"
	case s.Verb == host.Reboot:
		return "see systemctl list-jobs and systemd-inhibit on the node"
	case s.IsPath():
		return fmt.Sprintf("see ls -ld %s, df and mount on the node", s.Target)
	case s.Verb == host.SetUser, s.Verb == host.DropUser, s.Verb == host.SetGroup, s.Verb == host.DropGroup:
		return fmt.Sprintf("see getent passwd, getent group and journalctl for %s on the node", s.Target)
	}
	return "see rpm-ostree status or bootc status, and journalctl -u rpm-ostreed, on the node"
}

// Blockers returns what would stop the plan on the machine as it is now. The parameter contents has what its steps
// write and the machine does not have.
func Blockers(h host.Host, p plan.Plan, contents map[host.Digest][]byte) []host.Blocker {
	found, also := h.Units.Blockers(p.Steps, p.Install)
	if os, ok := h.OS.(host.BootWriter); ok {
		also = append(also, os.BootFiles(p.Steps)...)
	}
	found = append(found, h.Disk.Blockers(slices.Concat(p.Steps, also), func(d host.Digest) int64 {
		return sizeOf(h, contents, d)
	})...)
	if s := bootSpace(h, p.Steps); s.Free < s.Least {
		found = append(found, host.Blocker{Kind: host.Full, Path: s.At, At: s.At, Need: s.Least, Free: s.Free})
	}
	return found
}

// UnreadKeys returns which SSH keys that a plan writes would log nobody in, because sshd has other settings on this
// machine, or gets them from the config. A new machine with the config would not accept them either, so this is no
// reason to refuse it. The result is empty if sshd does not say its settings.
func UnreadKeys(ctx context.Context, h host.Host, p plan.Plan, w plan.Transition) (notes []string) {
	users, changes := p.WrittenKeys(w.New)
	for _, user := range users {
		if h.SSHSettings == nil {
			return nil
		}
		is, err := h.SSHSettings(ctx, user)
		if err != nil || changes && w.KeysFile == "" {
			continue // sshd has no host keys, for example, or refuses its settings.
		}
		if changes {
			is.KeysFile = w.KeysFile
		}
		account, _, _ := h.Passwd.User(ctx, user) // The number is that of a user who exists.
		if note := w.New.UnreadKeys(user, account.UID, is); note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

// bootSpace returns the space for what the steps stage.
func bootSpace(h host.Host, steps []host.Step) host.BootSpace {
	if os, ok := h.OS.(host.BootChecker); ok {
		return os.BootSpace(steps)
	}
	return host.BootSpace{}
}

// BootShortage says that the next boot may lead into the OS that runs, because there is probably too little space for
// another kernel; "" if nothing says so.
func BootShortage(h host.Host, steps []host.Step) string { return bootSpace(h, steps).Shortage() }

// sizeOf returns the bytes of contents, or 0 if they are neither downloaded nor in the map.
func sizeOf(h host.Host, contents map[host.Digest][]byte, d host.Digest) int64 {
	if text, ok := contents[d]; ok || h.Contents == nil {
		return int64(len(text))
	}
	bytes, _, _ := h.Contents.Size(d) // The step that writes them reports the error.
	return bytes
}
