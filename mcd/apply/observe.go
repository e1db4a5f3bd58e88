package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Accounts reads the machine's users and groups. A machine without the files has none. Image-based systems keep those
// of their packages below /usr/lib; what /etc says is stronger.
func Accounts(h host.Host) (host.Accounts, error) {
	var parts [2][]byte
	for i, name := range []string{"/passwd", "/group"} {
		for _, dir := range []string{"/usr/lib", "/etc"} {
			contents, err := h.Files.Read(dir + name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return host.Accounts{}, fmt.Errorf("reading accounts: %w", err)
			}
			parts[i] = slices.Concat(parts[i], contents, []byte("\n"))
		}
	}
	a := plan.Accounts(parts[0], parts[1])
	a.Unprivileged = h.Unprivileged
	return a, nil
}

// Observe looks at a part of the machine.
func Observe(ctx context.Context, h host.Host, scope plan.Scope) (host.State, error) {
	accounts, err := Accounts(h)
	if err != nil {
		return host.State{}, err
	}
	s := host.State{Paths: map[string]host.Entry{}, Units: map[string]host.Unit{}, Accounts: accounts}
	for _, p := range scope.Paths {
		if s.Paths[p], err = h.Files.Stat(p); err != nil {
			return host.State{}, fmt.Errorf("looking at %s: %w", p, err)
		}
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
