package policy

// Disruption is how much a change disturbs a node. Higher values disturb more; the maximum is the disruption of several changes.
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

// The actions. Only policies contain ActionSpecial. Decide resolves it into a reload, and a drain if the change of
// registries.conf is not safe.
const (
	ActionReboot       ActionType = "Reboot"
	ActionDrain        ActionType = "Drain"
	ActionReload       ActionType = "Reload"
	ActionRestart      ActionType = "Restart"
	ActionDaemonReload ActionType = "DaemonReload"
	ActionNone         ActionType = "None"
	ActionSpecial      ActionType = "Special"
)

// Action is one thing a node does after a change.
type Action struct {
	// Type is the verb.
	Type ActionType
	// Service is the unit of a Reload or Restart, else empty.
	Service string
}

// String returns "Restart chronyd.service", "Reboot", ….
func (a Action) String() string {
	if a.Service == "" {
		return string(a.Type)
	}
	return string(a.Type) + " " + a.Service
}

// Rule gives the actions of one path or unit.
type Rule struct {
	// Name is an absolute path (a file, or a directory with all below it) or a unit's name.
	Name string
	// Actions in order.
	Actions []Action
}

// Policy is a node disruption policy: the actions for a change of a path, a unit or SSH keys. A change without a rule reboots.
type Policy struct {
	// Files by path, also for directories and links. The longest rule that equals or contains the changed path applies.
	Files []Rule
	// Units by exact name.
	Units []Rule
	// SSHKey is the actions for any change of users and groups.
	SSHKey []Action
}

// ChangeKind is the kind of a changed item.
type ChangeKind string

// Kinds of changes.
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
	// KindStorage is a change that only new nodes get: disks, filesystems, raid, luks.
	KindStorage ChangeKind = "storage"
	// KindFirstBootKargs is a change of Ignition's own kernelArguments, which act on first boot only.
	KindFirstBootKargs ChangeKind = "first-boot-kargs"
	// KindIgnition is a change of Ignition's settings, which only new nodes get. Names are
	// config.merge, config.replace, proxy, security.tls and timeouts.
	KindIgnition ChangeKind = "ignition"
)

// Verb is the kind of change.
type Verb string

// Verbs of changes.
const (
	Added   Verb = "added"
	Changed Verb = "changed"
	Removed Verb = "removed"
)

// Change is one difference between two configs.
type Change struct {
	// Kind of what changed.
	Kind ChangeKind
	// Name is the path, unit name or user name; empty for kinds with one item.
	Name string
	// Verb is the kind of change.
	Verb Verb
}

// Changes is every difference between two configs: files by path, then units, then users, then groups, then the rest,
// each in lexical order. If it is empty, a node has nothing to do.
type Changes []Change

// Refusal is a part of a config, or a difference between two configs, that a running node cannot apply.
type Refusal struct {
	// Field is the part of the config, such as `storage.disks`, `storage.files /etc/motd append` or `/etc/motd`.
	Field string
	// Why is the reason, and what to do instead.
	Why string
	// Kind and Name are the refused item, if it is one item.
	Kind ChangeKind
	Name string
	// Continues is set if Why is the rest of a sentence that begins with Field.
	Continues bool
	// Check is the failed check of a node; "" for refusals of this package, which are valid for every node.
	Check NodeCheck
}

// Costed is a change with its actions and the reason for them.
type Costed struct {
	Change
	// Actions of this change alone. Special is resolved, with a drain if the change of registries.conf is not safe.
	Actions []Action
	// Why names the rule that applies: `rule /etc/containers/policy.json`, `no rule covers it`.
	Why string
	// Effect is the effect on an account that leaves the config, or EffectNewNodes; "" for other changes.
	Effect string
}

// Decision is what a node does for all changes together.
type Decision struct {
	// Actions in order, combined by the machine-config contract: Reboot replaces all others, None is removed if there are
	// others, and repetitions stay.
	Actions []Action
	// Drain is true if the node is drained first.
	Drain bool
	// Disruption is the highest of all actions, Drain included.
	Disruption Disruption
	// Items is every change with its own cost, in the order of Changes.
	Items []Costed
}
