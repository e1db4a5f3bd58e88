package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Accounts reads what the machine tells about its users and groups, and how it makes new ones. A machine without the
// files has none.
func Accounts(ctx context.Context, h host.Host) (host.Accounts, error) {
	var f plan.AccountFiles
	for _, part := range []struct {
		at   string
		into *[]byte
	}{
		{host.PasswdPath, &f.Passwd},
		{host.GroupPath, &f.Group},
		{"/usr/lib/passwd", &f.ImagePasswd},
		{"/usr/lib/group", &f.ImageGroup},
		{"/etc/login.defs", &f.LoginDefs},
		{"/etc/default/useradd", &f.UserAdd},
		{host.AccountsPath, &f.Records},
	} {
		contents, err := h.Files.Read(part.at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return host.Accounts{}, fmt.Errorf("reading accounts: %w", err)
		}
		*part.into = contents
	}
	a := plan.Accounts(f)
	a.Unprivileged = h.Unprivileged
	var err error
	if a.Skeleton, err = h.Passwd.Skeleton(ctx); err != nil {
		return host.Accounts{}, fmt.Errorf("reading what new home directories hold: %w", err)
	}
	return a, nil
}

// Observe looks at a part of the machine.
func Observe(ctx context.Context, h host.Host, scope plan.Scope) (host.State, error) {
	accounts, err := Accounts(ctx, h)
	if err != nil {
		return host.State{}, err
	}
	s := host.State{Accounts: accounts}.Clone()
	s.Paths = make(map[string]host.Entry, len(scope.Paths))
	for _, p := range scope.Paths { // a directory comes before what is in it
		above, seen := s.Paths[path.Dir(p)]
		switch {
		case seen && above.Kind == host.Unsafe:
			s.Paths[p], s.Unsafe[p] = above, s.Unsafe[path.Dir(p)]
			continue
		case seen && !slices.Contains([]host.Kind{host.Dir, host.Link}, above.Kind):
			s.Paths[p] = host.Entry{} // nothing is in nothing, nor in a file
			continue
		}
		if s.Paths[p], err = h.Files.Stat(p); err != nil && !isUnsafe(s, p, err) {
			return host.State{}, fmt.Errorf("looking at %s: %w", p, err)
		}
	}
	for p, targets := range scope.Hard {
		for _, target := range targets {
			if same, err := sameFile(h, p, target); err != nil && !isUnsafe(s, p, err) {
				return host.State{}, fmt.Errorf("looking at %s: %w", p, err)
			} else if same {
				s.Paths[p] = host.Entry{Kind: host.Hard, Target: target}
			}
		}
	}
	if err := homes(h, s, scope); err != nil {
		return host.State{}, err
	}
	if err := read(h, s, scope.Read); err != nil {
		return host.State{}, err
	}
	if err := observeAccounts(ctx, h, s, scope); err != nil {
		return host.State{}, err
	}
	if err := observeUnits(ctx, h, s.Units, scope.Units); err != nil {
		return host.State{}, err
	}
	os, err := h.OS.Status(ctx)
	if err != nil {
		return host.State{}, fmt.Errorf("asking for the state of the OS: %w", err)
	}
	s.OS, s.Support = os.Next, os.Support
	s.OS.Kargs = scope.Managed(s.OS.Kargs)
	if s.OS.KernelType == "" {
		s.OS.KernelType = "default"
	}
	return s, nil
}

// isUnsafe tells that an error is about a path that the daemon does not open, and notes it.
func isUnsafe(s host.State, p string, err error) bool {
	var unsafe *host.UnsafePathError
	if !errors.As(err, &unsafe) {
		return false
	}
	s.Paths[p], s.Unsafe[p] = host.Entry{Kind: host.Unsafe}, unsafe.Reason()
	return true
}

// homes looks at what home directories that are links lead to, because keys are for who owns that.
func homes(h host.Host, s host.State, scope plan.Scope) (err error) {
	for _, p := range scope.Homes {
		for range plan.MostLinks {
			if s.Paths[p].Kind != host.Link {
				break
			}
			p = plan.LinkedTo(p, s.Paths[p].Target)
			if s.Paths[p], err = h.Files.Stat(p); err != nil && !isUnsafe(s, p, err) {
				return fmt.Errorf("looking at %s: %w", p, err)
			}
		}
	}
	return nil
}

func sameFile(h host.Host, a, b string) (bool, error) {
	if h.Same == nil {
		return false, nil
	}
	return h.Same(a, b)
}

// read keeps the contents of files that are needed, under the digest that was observed.
func read(h host.Host, s host.State, paths []string) error {
	for _, p := range paths {
		if s.Paths[p].Kind != host.File {
			continue
		}
		contents, err := h.Files.Read(p)
		if err != nil && isUnsafe(s, p, err) {
			continue
		}
		if err == nil && host.DigestOf(contents) != s.Paths[p].Digest {
			err = errors.New("it changed while it was looked at")
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", p, err)
		}
		s.Contents[s.Paths[p].Digest] = contents
	}
	return nil
}

// observeAccounts asks about users and groups. Members whom the users themselves tell about are left out of groups.
func observeAccounts(ctx context.Context, h host.Host, s host.State, scope plan.Scope) error {
	for _, name := range scope.Users {
		u, password, err := h.Passwd.User(ctx, name)
		if err != nil {
			return fmt.Errorf("asking about user %s: %w", name, err)
		}
		s.Users[name] = u
		if u.There {
			s.Contents[u.Password] = password
		}
	}
	for _, name := range scope.Groups {
		g, err := h.Passwd.Group(ctx, name)
		if err != nil {
			return fmt.Errorf("asking about group %s: %w", name, err)
		}
		g.Members = host.JoinNames(slices.DeleteFunc(host.Names(g.Members), func(m string) bool { return slices.Contains(scope.Users, m) }))
		s.Groups[name] = g
	}
	return nil
}

// observeUnits asks about units, and about those that they name with Also: they are enabled and disabled with them.
func observeUnits(ctx context.Context, h host.Host, seen map[string]host.Unit, names []string) error {
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if _, known := seen[name]; known {
			continue
		}
		u, err := h.Units.Status(ctx, name)
		if err != nil {
			return fmt.Errorf("asking about unit %s: %w", name, err)
		}
		seen[name] = u
		names = slices.Concat(names, host.AlsoOf(u.Install), host.AlsoOf(u.Vendor))
	}
	return nil
}
