package v1alpha1

// The paths on a node that belong to its daemon. No config may have them, or anything below them.
const (
	// DaemonRecordPath holds the config in force.
	DaemonRecordPath = "/etc/machine-config-daemon/currentconfig"
	// DaemonOrigDir keeps what was at a path before any config.
	DaemonOrigDir = "/etc/machine-config-daemon/orig"
	// DaemonNoOrigDir marks paths at which nothing was before any config.
	DaemonNoOrigDir = "/etc/machine-config-daemon/noorig"
	// DaemonAccountsPath keeps what accounts were before any config.
	DaemonAccountsPath = "/etc/machine-config-daemon/accounts.json"
	// DaemonStateDir holds the journal and all else that the daemon keeps.
	DaemonStateDir = "/var/lib/machine-config-daemon"
	// DaemonForcePath makes the daemon skip its checks once.
	DaemonForcePath = "/run/machine-config-daemon-force"
	// DaemonNewSuffix ends the names of files that the daemon is writing; they begin with a dot.
	DaemonNewSuffix = ".bunsen-new"
	// UnitDir is where units of a config are written.
	UnitDir = "/etc/systemd/system"
)
