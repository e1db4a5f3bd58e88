package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Accounts reads the machine's users and groups, and how it creates new users and groups. A machine without the account
// files has no accounts.
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
	a := plan.ParseAccounts(f)
	a.Unprivileged = h.Unprivileged
	var err error
	if err := findKeysFile(h.Files, &a); err != nil {
		return host.Accounts{}, err
	}
	if a.Skeleton, err = h.Passwd.Skeleton(ctx); err != nil {
		return host.Accounts{}, fmt.Errorf("reading the skeleton of home directories: %w", err)
	}
	return a, nil
}

// findKeysFile sets where the machine has SSH keys, by its row in the table of distributions.
func findKeysFile(files host.Files, a *host.Accounts) (failed error) {
	release := Release(files)
	system, _ := distribution.SystemOf(release["ID"], release["VARIANT_ID"])
	a.KeysFile = system.KeysFileOf(func(program string) bool {
		is, err := files.Stat(program)
		if err != nil {
			failed = fmt.Errorf("looking for the program that reads SSH keys: %w", err)
		}
		return is.Kind == host.File || is.Kind == host.Link
	})
	a.MergesKeys = system.MergesKeys && a.KeysFile == distribution.KeysFragment
	return failed
}

// Place returns a transition with every path at its place on the machine, as Transition.Place does.
func Place(h host.Host, w plan.Transition) (plan.Transition, error) {
	w, err := w.Place(h.Files.Stat)
	if err != nil {
		return w, fmt.Errorf("finding the places of paths: %w", err)
	}
	return w, nil
}

// Observe reads the part of the machine in a scope.
func Observe(ctx context.Context, h host.Host, scope plan.Scope) (host.State, error) {
	accounts, err := Accounts(ctx, h)
	if err != nil {
		return host.State{}, err
	}
	s := host.State{Accounts: accounts}.Clone()
	s.Paths = make(map[string]host.Entry, len(scope.Paths))
	for _, observe := range []func() error{
		func() error { return observePaths(h, s, scope) },
		func() error { return observeHardLinks(h, s, scope.HardLinks) },
		func() error { return observeHomes(h, s, scope.Homes) },
		func() error { return readContents(h, s, scope.Read) },
		func() error { return observeAccounts(ctx, h, s, scope) },
		func() error { return observeUnits(ctx, h, s.Units, scope.Units) },
	} {
		if err := observe(); err != nil {
			return host.State{}, err
		}
	}
	os, err := h.OS.Status(ctx)
	if err != nil {
		return host.State{}, fmt.Errorf("reading the state of the OS: %w", err)
	}
	s.OS, s.Support = os.Next, os.Support
	s.OS.Kargs = scope.Managed(s.OS.Kargs)
	if s.OS.KernelType == "" {
		s.OS.KernelType = "default"
	}
	return s, nil
}

// Blockers returns what would stop the plan on the machine as it is now. The parameter contents has what its steps
// write and the machine does not have.
func Blockers(h host.Host, p plan.Plan, contents map[host.Digest][]byte) []host.Blocker {
	found, links := h.Units.Blockers(p.Steps, p.Install)
	found = append(found, h.Disk.Blockers(slices.Concat(p.Steps, links), func(d host.Digest) int64 {
		return sizeOf(h, contents, d)
	})...)
	if s := bootSpace(h, p.Steps); s.Free < s.Least {
		found = append(found, host.Blocker{Kind: host.Full, Path: s.At, At: s.At, Need: s.Least, Free: s.Free})
	}
	return found
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

// observePaths reads the entries at the paths. A directory comes before the paths in it.
func observePaths(h host.Host, s host.State, scope plan.Scope) (err error) {
	for _, p := range scope.Paths {
		above, seen := s.Paths[path.Dir(p)]
		switch {
		case seen && scope.Replaced[path.Dir(p)]:
			s.Paths[p] = host.Entry{}
			continue
		case seen && above.Kind == host.Unsafe:
			s.Paths[p], s.Unsafe[p] = above, s.Unsafe[path.Dir(p)]
			continue
		case seen && !slices.Contains([]host.Kind{host.Dir, host.Link}, above.Kind):
			// A path below this one does not exist, because only directories, and links to directories, have entries.
			s.Paths[p] = host.Entry{}
			continue
		}
		if s.Paths[p], err = h.Files.Stat(p); err != nil && !isUnsafe(s, p, err) {
			return fmt.Errorf("reading %s: %w", p, err)
		}
	}
	return nil
}

// observeHardLinks finds the paths that are hard links to one of their targets.
func observeHardLinks(h host.Host, s host.State, links map[string][]string) error {
	for p, targets := range links {
		for _, target := range targets {
			if same, err := sameFile(h, p, target); err != nil && !isUnsafe(s, p, err) {
				return fmt.Errorf("reading %s: %w", p, err)
			} else if same {
				s.Paths[p] = host.Entry{Kind: host.Hard, Target: target}
			}
		}
	}
	return nil
}

// isUnsafe reports whether an error is about a path that the daemon does not open. isUnsafe records the reason in the
// state.
func isUnsafe(s host.State, p string, err error) bool {
	var unsafe *host.UnsafePathError
	if !errors.As(err, &unsafe) {
		return false
	}
	s.Paths[p], s.Unsafe[p] = host.Entry{Kind: host.Unsafe}, unsafe.Reason()
	return true
}

// observeHomes reads the home directories that are links: the owner of the link's target gets the SSH keys.
func observeHomes(h host.Host, s host.State, homes []string) (err error) {
	for _, p := range homes {
		for range host.MaxLinks {
			if s.Paths[p].Kind != host.Link {
				break
			}
			p = host.LinkTarget(p, s.Paths[p].Target)
			if s.Paths[p], err = h.Files.Stat(p); err != nil && !isUnsafe(s, p, err) {
				return fmt.Errorf("reading %s: %w", p, err)
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

// readContents adds the contents of files to the state, under the digest that was observed.
func readContents(h host.Host, s host.State, paths []string) error {
	for _, p := range paths {
		if s.Paths[p].Kind != host.File {
			continue
		}
		contents, err := h.Files.Read(p)
		if err != nil && isUnsafe(s, p, err) {
			continue
		}
		if err == nil && host.DigestOf(contents) != s.Paths[p].Digest {
			err = errors.New("it changed during the observation")
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", p, err)
		}
		s.Contents[s.Paths[p].Digest] = contents
	}
	return nil
}

// observeAccounts reads users and groups. observeAccounts omits users in the scope from the group members, because each
// of these users has a list of its groups.
func observeAccounts(ctx context.Context, h host.Host, s host.State, scope plan.Scope) error {
	for _, name := range scope.Users {
		u, password, err := h.Passwd.User(ctx, name)
		if err != nil {
			return fmt.Errorf("reading user %s: %w", name, err)
		}
		s.Users[name] = u
		if u.There {
			s.Contents[u.Password] = password
		}
	}
	for _, name := range scope.Groups {
		g, err := h.Passwd.Group(ctx, name)
		if err != nil {
			return fmt.Errorf("reading group %s: %w", name, err)
		}
		g.Members = host.JoinNames(slices.DeleteFunc(host.Names(g.Members), func(m string) bool {
			return slices.Contains(scope.Users, m)
		}))
		s.Groups[name] = g
	}
	return nil
}

// observeUnits reads units, and the units that they name with Also=, which systemd enables and disables with them.
func observeUnits(ctx context.Context, h host.Host, seen map[string]host.Unit, names []string) error {
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		if _, known := seen[name]; known {
			continue
		}
		u, err := h.Units.Status(ctx, name)
		if err != nil {
			return fmt.Errorf("reading unit %s: %w", name, err)
		}
		seen[name] = u
		names = slices.Concat(names, host.AlsoOf(u.Install), host.AlsoOf(u.Vendor))
	}
	return nil
}

// Release reads the fields of os-release(5); none without the file.
func Release(files host.Files) map[string]string {
	fields := map[string]string{}
	for _, at := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if is, err := files.Stat(at); err == nil && is.Kind == host.Link {
			at = host.LinkTarget(at, is.Target)
		}
		text, err := files.Read(at)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			fields[key] = strings.Trim(value, `"'`)
		}
		break
	}
	return fields
}
