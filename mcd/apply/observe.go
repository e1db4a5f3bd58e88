package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// Accounts reads the machine's users and groups. A machine without the files has none.
func Accounts(h host.Host) (host.Accounts, error) {
	var parts [2][]byte
	for i, p := range []string{"/etc/passwd", "/etc/group"} {
		contents, err := h.Files.Read(p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return host.Accounts{}, fmt.Errorf("reading accounts: %w", err)
		}
		parts[i] = contents
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
	for _, u := range scope.Units {
		if s.Units[u], err = h.Units.Status(ctx, u); err != nil {
			return host.State{}, fmt.Errorf("asking about unit %s: %w", u, err)
		}
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
