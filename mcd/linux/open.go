package linux

import (
	"context"
	"errors"
	"os"

	"github.com/bunsen-os/bunsen/mcd/host"

	"github.com/bunsen-os/bunsen/mcd/linux/files"
	linuximage "github.com/bunsen-os/bunsen/mcd/linux/image"

	"github.com/bunsen-os/bunsen/mcd/linux/machine"

	"github.com/bunsen-os/bunsen/mcd/linux/systemd"
)

// OpenHost opens the machine whose root is mounted at a directory. The directory is "/" for a service on the node, and
// for a daemon in a container that has entered the node's root. All files and D-Bus sockets of the machine are below
// this directory. The host connects to D-Bus at the first use. The returned function closes the host.
func OpenHost(_ context.Context, dir string) (host.Host, func(), error) {
	return open(dir, (*files.Root).Lock)
}

// OpenReadOnly opens a machine without a lock, while a daemon may serve it. The caller must not change the machine.
func OpenReadOnly(_ context.Context, dir string) (host.Host, func(), error) {
	return open(dir, func(*files.Root) error { return nil })
}

func open(dir string, lock func(*files.Root) error) (host.Host, func(), error) {
	if os.Geteuid() != 0 {
		return host.Host{}, nil, errors.New("the daemon changes the whole machine and has to run as root; for a host " +
			"without rights, use simulate")
	}
	root, err := files.Open(dir)
	if err != nil {
		return host.Host{}, nil, err
	}
	if err := lock(root); err != nil {
		root.Close() //nolint:errcheck,gosec // the first error is the one to tell
		return host.Host{}, nil, err
	}
	units := systemd.NewUnits(root, dir)
	closeAll := func() {
		units.Close()
		root.Close() //nolint:errcheck,gosec // nothing was left unwritten
	}
	return host.Host{
		Files: root, Disk: root, Units: units, Passwd: NewShadowUtils(root, dir),
		OS: operatingSystem(root, dir), Trust: trustStore{root, dir}, Power: systemd.NewPower(dir, units),
		Journal: root.Journal(), Store: root.Store(), Contents: files.NewContentStore(root), Same: root.Same,
		MergeKeys: keyMerger{root, dir}.merge,
	}, closeAll, nil
}

// operatingSystem returns the implementation that can change the machine's OS: the image tools if the machine has them,
// otherwise the boot loader, otherwise one that changes nothing.
func operatingSystem(root *files.Root, dir string) host.OperatingSystem {
	image := linuximage.DetectOSTree(root, dir)
	if _, packaged := image.(linuximage.Packaged); !packaged || machine.Exists(root, linuximage.Booted) {
		return image
	}
	if loader := linuximage.DetectBootLoader(root, dir); loader != nil {
		return loader
	}
	return image
}
