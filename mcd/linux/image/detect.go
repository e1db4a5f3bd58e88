package image

import (
	"cmp"
	"errors"
	"fmt"
	"path"

	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// Paths of boot loaders.
const (
	// grubConfig is the path of the file that update-grub generates.
	grubConfig = "/boot/grub/grub.cfg"
	// grubDir is the directory of files that grub-mkconfig reads after /etc/default/grub.
	grubDir = "/etc/default/grub.d"
)

// oemConfigs are the possible paths of Flatcar's grub.cfg, that of the newest release first.
var oemConfigs = []string{"/oem/grub.cfg", "/usr/share/oem/grub.cfg"}

// DetectBootLoader returns the machine's OS with its boot loader, by the machine's row in the table of distributions.
// For a machine without a known boot loader, Detect returns nil. The parameter dir is the mount point of the machine's
// root.
func DetectBootLoader(root *files.Root, dir string) host.OperatingSystem {
	release := machine.Release(root)
	system, _ := distribution.SystemOf(release["ID"], release["VARIANT_ID"])
	file := &BootLoaderFile{
		root: root, running: machine.RunningKargs,
		name: cmp.Or(release["PRETTY_NAME"], system.Name),
	}
	switch system.KernelArguments.Method {
	case distribution.UpdateGrub:
		file.path, file.format = nodepath.GrubArguments, fragment{}
		file.generate = machine.FindProgram(root, dir, system.KernelArguments.Name)
		if file.generate.Path == "" || !machine.Exists(root, grubConfig) {
			return nil
		}
		return file
	case distribution.OEMGrub:
		file.format = block{}
		for _, at := range oemConfigs {
			if file.path = at; machine.Exists(root, path.Dir(at)) {
				return file
			}
		}
	}
	return nil
}

// BootLoaderFile is an OS whose kernel arguments are in a file that the boot loader, or the generator of its config,
// reads. The daemon adds its arguments at the end and never changes other arguments.
type BootLoaderFile struct {
	root *files.Root
	// path of the file, and its format.
	path   string
	format format
	// generate is the program that makes the boot loader's config from the file; its path is empty if the boot loader
	// reads the file itself.
	generate machine.Program
	// running returns the arguments of the running kernel.
	running func() (string, error)
	// name of the OS for users.
	name string
}

// format reads and writes the arguments of the daemon in a file.
type format interface {
	// args returns the arguments of the daemon. If the file has none, args returns none.
	args(text string) ([]string, error)
	// with returns the file with other arguments of the daemon; "" for no file.
	with(text string, args []string) (string, error)
}

// errForeign means that another program or a user has changed lines that the daemon wrote.
var errForeign = errors.New("a line of Bunsen's part was changed by others: remove this part, and the daemon writes " +
	"it anew")

func (o *BootLoaderFile) support(own string) host.Support {
	return host.Support{
		Kargs: true, PlainKargs: true, OwnKargs: own,
		Why: fmt.Sprintf("it is %s, of which the daemon changes only kernel arguments, and no image, kernel type or "+
			"extensions", o.name),
	}
}
