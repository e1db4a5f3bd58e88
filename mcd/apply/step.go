package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// do applies one step. The parameter is has the present entry at the step's path, if the step has a path. The parameter
// from has the contents to write.
func (r Runner) do(ctx context.Context, s host.Step, is host.Entry, from source) error {
	switch s.Verb {
	case host.Enable:
		return r.Host.Units.Enable(ctx, s.Target)
	case host.Disable:
		return r.Host.Units.Disable(ctx, s.Target)
	case host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions:
		return r.Host.OS.Stage(ctx, s)
	case host.SetUser, host.DropUser:
		password, err := from(s.After.User.Password)
		if err != nil {
			return err
		}
		return r.Host.Passwd.SetUser(ctx, s.Target, s.After.User, password)
	case host.SetGroup, host.DropGroup:
		return r.Host.Passwd.SetGroup(ctx, s.Target, s.After.Group)
	case host.MergeKeys:
		if r.Host.MergeKeys == nil {
			return nil
		}
		return r.Host.MergeKeys(ctx, s.Target)
	case host.UpdateTrust:
		return r.Host.Trust.Update(ctx, s.Target)
	case host.DaemonReload:
		return r.Host.Units.DaemonReload(ctx)
	case host.Reload:
		return r.Host.Units.Reload(ctx, s.Target)
	case host.Restart:
		return r.Host.Units.Restart(ctx, s.Target)
	}
	if s.IsPath() {
		return r.place(s, is, from)
	}
	return fmt.Errorf("no step has the verb %q", s.Verb)
}

// place sets a path to the step's value. To replace a directory by a file, or a file by a directory, place first
// removes the old entry. A rollback works after the removal, and also after both changes.
func (r Runner) place(s host.Step, is host.Entry, from source) error {
	files, want := r.Host.Files, s.After.Entry
	// A hard link is created even if the entry is equal, because the target of the link may be another file by now.
	if is == want && want.Kind != host.Hard {
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
	if downloaded, err := r.isDownloaded(want.Digest); err != nil {
		return err
	} else if downloaded {
		return r.Host.Contents.Write(s.Target, want)
	}
	contents, err := from(want.Digest)
	if err != nil {
		return err
	}
	return files.Write(s.Target, want, contents)
}
