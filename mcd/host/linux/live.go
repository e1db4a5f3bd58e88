package linux

import (
	"context"
	"errors"
	"os"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Open opens the machine whose root is mounted at a directory: "/" for a service on the node, and for a daemon in a
// container that has entered the node's root. Everything is found below that directory, the buses too; it connects to
// them when it first needs them. The function closes what was opened.
func Open(_ context.Context, dir string) (host.Host, func(), error) { return open(dir, (*Root).Lock) }

// Look opens a machine like Open does, beside a daemon that serves it and without a trace: nothing may be changed by it.
func Look(_ context.Context, dir string) (host.Host, func(), error) {
	return open(dir, func(*Root) error { return nil })
}

func open(dir string, lock func(*Root) error) (host.Host, func(), error) {
	if os.Geteuid() != 0 {
		return host.Host{}, nil, errors.New("the daemon changes the whole machine and has to run as root; for a host without rights, use simulate")
	}
	root, err := OpenRoot(dir)
	if err != nil {
		return host.Host{}, nil, err
	}
	if err := lock(root); err != nil {
		root.Close() //nolint:errcheck,gosec // the first error is the one to tell
		return host.Host{}, nil, err
	}
	units := &LiveUnits{Enablement: Enablement{root}, bus: newBus(dir)}
	closeAll := func() {
		units.bus.close()
		root.Close() //nolint:errcheck,gosec // nothing was left unwritten
	}
	return host.Host{
		Files: root, Disk: root, Units: units, Passwd: newShadowUtils(root, dir), OS: openOS(root, dir), Power: newLivePower(dir, units),
		Journal: Journal{root}, Store: Store{root}, Same: root.Same,
	}, closeAll, nil
}
