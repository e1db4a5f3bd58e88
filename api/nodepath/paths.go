package nodepath

// The paths on a node that belong to its daemon. A config must not contain these paths, or anything below them.
const (
	// Record holds the config in force.
	Record = "/etc/machine-config-daemon/currentconfig"
	// OrigDir has the contents of paths before any config changed them.
	OrigDir = "/etc/machine-config-daemon/orig"
	// NoOrigDir has marks for paths that did not exist before any config.
	NoOrigDir = "/etc/machine-config-daemon/noorig"
	// Accounts has the accounts as they were before any config changed them.
	Accounts = "/etc/machine-config-daemon/accounts.json"
	// Units has the units as they were before any config enabled or disabled them.
	Units = "/etc/machine-config-daemon/units.json"
	// StateDir holds the journal and the other state of the daemon.
	StateDir = "/var/lib/machine-config-daemon"
	// Force makes the daemon skip its checks once.
	Force = "/run/machine-config-daemon-force"
	// GrubArguments has the kernel arguments of the config in force, on machines whose boot loader reads
	// /etc/default/grub.d. The boot loader reads GrubArguments after the other files in that directory.
	GrubArguments = "/etc/default/grub.d/zz-bunsen.cfg"
	// BootedArguments has the kernel arguments that the daemon had set when the machine booted, if they have changed
	// since.
	BootedArguments = "/run/machine-config-daemon-kargs"
	// PinnedImages is the file with which CRI-O pins the images of PinnedImageSets.
	PinnedImages = "/etc/crio/crio.conf.d/50-pinned-images"
	// NewSuffix is the end of the names of files that the daemon is writing. The names of such files begin with a dot.
	NewSuffix = ".bunsen-new"
	// UnitDir is the directory for the units of a config.
	UnitDir = "/etc/systemd/system"
)
