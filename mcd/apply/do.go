package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// do makes one step's After be.
func (r Runner) do(ctx context.Context, s host.Step) error {
	switch s.Verb {
	case host.Enable:
		return r.Host.Units.Enable(ctx, s.Target)
	case host.Disable:
		return r.Host.Units.Disable(ctx, s.Target)
	case host.SetImage, host.SetKargs, host.SetKernelType, host.SetExtensions:
		return r.Host.OS.Stage(ctx, s)
	case host.SetUser, host.DropUser:
		password, err := r.contents(s.After.User.Password)
		if err != nil {
			return err
		}
		return r.Host.Passwd.SetUser(ctx, s.Target, s.After.User, password)
	case host.SetGroup, host.DropGroup:
		return r.Host.Passwd.SetGroup(ctx, s.Target, s.After.Group)
	case host.DaemonReload:
		return r.Host.Units.DaemonReload(ctx)
	case host.Reload:
		return r.Host.Units.Reload(ctx, s.Target)
	case host.Restart:
		return r.Host.Units.Restart(ctx, s.Target)
	}
	if s.IsPath() {
		return r.place(s)
	}
	return fmt.Errorf("no step has the verb %q", s.Verb)
}

// place makes a path be as the step says. Where a directory and something else change places, the old goes first; that
// is two changes, and either order of them is undone by placing the old again.
func (r Runner) place(s host.Step) error {
	files, want := r.Host.Files, s.After.Entry
	is, err := files.Stat(s.Target)
	if err != nil || is == want {
		return err
	}
	if is.Kind == host.Other {
		return errors.New("it is a device, pipe or socket, which no config made: move it away")
	}
	if want.Kind == host.Absent {
		err := files.Remove(s.Target)
		if is.Kind == host.Dir && errors.Is(err, host.ErrNotEmpty) {
			return nil // somebody put something into a directory that a config made: it is theirs now
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
	case host.Link:
		return files.Link(s.Target, want)
	}
	contents, err := r.contents(want.Digest)
	if err != nil {
		return err
	}
	return files.Write(s.Target, want, contents)
}

func (r Runner) contents(d host.Digest) ([]byte, error) {
	if d == "" || d == host.DigestOf(nil) {
		return nil, nil
	}
	contents, err := r.Host.Store.Get(d)
	if err != nil {
		return nil, fmt.Errorf("fetching kept contents %s: %w", d.Short(), err)
	}
	return contents, nil
}
