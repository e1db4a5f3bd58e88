package disruption

// Disruption says how much a change disturbs a node. The highest one counts for several changes.
type Disruption int

const (
	// None: no effect on the node.
	None Disruption = iota
	// DaemonReload: systemd reloads its unit files.
	DaemonReload
	// Reload: a service reloads its configuration.
	Reload
	// Restart: a service stops and starts.
	Restart
	// Drain: pods move to other nodes first.
	Drain
	// Reboot: pods move to other nodes and the machine restarts.
	Reboot
)

// String returns the word that reports use: none, daemon-reload, reload, restart, drain, reboot.
func (d Disruption) String() string {
	return [...]string{"none", "daemon-reload", "reload", "restart", "drain", "reboot"}[d]
}

// ActionType is the verb of an Action, as in MachineConfiguration (operator.openshift.io/v1).
type ActionType string

// Only policies contain ActionSpecial. Decide resolves it into a reload, and a drain if the change of registries.conf
// is not safe.
const (
	ActionReboot       ActionType = "Reboot"
	ActionDrain        ActionType = "Drain"
	ActionReload       ActionType = "Reload"
	ActionRestart      ActionType = "Restart"
	ActionDaemonReload ActionType = "DaemonReload"
	ActionNone         ActionType = "None"
	ActionSpecial      ActionType = "Special"
)

// Action is one action of a node after a change, such as the restart of a service.
type Action struct {
	Type ActionType
	// Service is the unit of a Reload or Restart.
	Service string
}

// String returns "Restart chronyd.service", "Reboot", ….
func (a Action) String() string {
	if a.Service == "" {
		return string(a.Type)
	}
	return string(a.Type) + " " + a.Service
}

// Rule has the actions for changes of one path or unit.
type Rule struct {
	// Name is an absolute path (a file, or a directory with all below it) or a unit's name.
	Name    string
	Actions []Action
}

// Policy is a node disruption policy: the actions for a change of a path, a unit or SSH keys. A change without a rule
// reboots.
type Policy struct {
	// Files are the rules for files, directories and links. The longest one that equals or contains the changed path
	// applies.
	Files []Rule
	// Units are the rules for units, by exact name.
	Units []Rule
	// SSHKey is for any change of users and groups.
	SSHKey []Action
}

// ChangeKind is the kind of a changed item.
type ChangeKind string

// The kinds of changes.
const (
	KindFile       ChangeKind = "file"
	KindUnit       ChangeKind = "unit"
	KindUser       ChangeKind = "user"
	KindKargs      ChangeKind = "kargs"
	KindKernelType ChangeKind = "kernel-type"
	KindExtensions ChangeKind = "extensions"
	KindOSImage    ChangeKind = "os-image"
	KindFIPS       ChangeKind = "fips"
	KindGroup      ChangeKind = "group"
	KindDirectory  ChangeKind = "directory"
	KindLink       ChangeKind = "link"
	// KindStorage is only for new nodes: disks, filesystems, raid, luks.
	KindStorage ChangeKind = "storage"
	// KindFirstBootKargs is a change of Ignition's own kernelArguments, for first boots only.
	KindFirstBootKargs ChangeKind = "first-boot-kargs"
	// KindIgnition is a change of Ignition's settings, for new nodes only: config.merge, config.replace, proxy,
	// security.tls and timeouts.
	KindIgnition ChangeKind = "ignition"
)

// Verb is the kind of change.
type Verb string

// The verbs of changes.
const (
	Added   Verb = "added"
	Changed Verb = "changed"
	Removed Verb = "removed"
)

// Change is one difference between two configs.
type Change struct {
	Kind ChangeKind
	// Name is the path, unit name or user name; empty for kinds with one item.
	Name string
	Verb Verb
}

// Changes are all differences between two configs: files by path, then units, then users, then groups, then all other
// kinds, each in lexical order. Without any, a node has nothing to do.
type Changes []Change

// Refusal is a part of a config, or a difference between two configs, that a running node cannot apply.
type Refusal struct {
	// Field is the part of the config, such as `storage.disks`, `storage.files /etc/motd append` or `/etc/motd`.
	Field string
	// Why, and what to do instead.
	Why string
	// Kind and Name are set if a single item is refused.
	Kind ChangeKind
	Name string
	// Part is the path of the refused value in that item, such as `user.id`; empty for the whole item.
	Part string
	// Continues: Why is the rest of a sentence that begins with Field.
	Continues bool
	// Check failed on a node; "" for refusals of this package, which are valid for every node.
	Check NodeCheck
}

// Costed is a change with its actions and the reason for them.
type Costed struct {
	Change
	// Actions for this change alone. ActionSpecial is resolved, with a drain if the change of registries.conf is not
	// safe.
	Actions []Action
	// Why names the rule that applies: `rule /etc/containers/policy.json`, `no rule covers it`.
	Why string
	// Effect on an account or a service that leaves the config, or EffectNewNodes; "" for other changes.
	Effect string
}

// Decision has the actions of a node for all changes together.
type Decision struct {
	// Actions are combined by the rules of the machine-config-operator: Reboot replaces all others, None goes if there
	// are others, and repetitions stay.
	Actions []Action
	// Drain comes first.
	Drain bool
	// Disruption is the highest of all, Drain included.
	Disruption Disruption
	// Items are in the order of Changes.
	Items []Costed
}
