package policy

// Disruption is how much a change disturbs a node; higher disturbs more, and two combine by max.
type Disruption int

const (
	// None: the node notices nothing.
	None Disruption = iota
	// DaemonReload: systemd reads its unit files again.
	DaemonReload
	// Reload: a service reads its configuration again.
	Reload
	// Restart: a service stops and starts.
	Restart
	// Drain: pods are moved away first.
	Drain
	// Reboot: pods are moved away and the machine restarts.
	Reboot
)

// String returns the word that reports use: none, daemon-reload, reload, restart, drain, reboot.
func (d Disruption) String() string {
	return [...]string{"none", "daemon-reload", "reload", "restart", "drain", "reboot"}[d]
}

// ActionType is the verb of an Action, spelt as in MachineConfiguration (operator.openshift.io/v1).
type ActionType string

// The actions. ActionSpecial stands in policies only; a Decision has it resolved into a reload and, where the change
// of registries.conf is not safe, a drain.
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

// Policy is a node disruption policy: what a change of a path, a unit or SSH keys costs. What no rule covers reboots.
type Policy struct {
	// Files by path, of directories and links too; the longest that equals or contains the changed path decides.
	Files []Rule
	// Units by exact name.
	Units []Rule
	// SSHKey is what a change of users and groups costs: keys, passwords, and all the rest of an account.
	SSHKey []Action
}

// ChangeKind says what sort of thing changed.
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
	// KindIgnition is a change of what a config tells Ignition about itself, which only new nodes get. Names are
	// config.merge, config.replace, proxy, security.tls and timeouts.
	KindIgnition ChangeKind = "ignition"
)

// Verb says how it changed.
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
	// Name is the path, unit name, user name; empty for kinds of which there is one.
	Name string
	// Verb says how.
	Verb Verb
}

// Changes is every difference between two configs: files by path, then units, then users, then groups, then the rest,
// each in lexical order. Empty means that a node has nothing to do.
type Changes []Change

// Refusal is a part of a config, or a difference between two, that a running node cannot take.
type Refusal struct {
	// Field is the part of the config, such as `storage.disks`, `storage.files /etc/motd append` or `/etc/motd`.
	Field string
	// Why in words, and what to do instead.
	Why string
	// Kind and Name are the item that it is about, where it is about one.
	Kind ChangeKind
	Name string
	// Check is the check of a node that failed; "" for what this package decides, which holds on every node.
	Check NodeCheck
}

// Costed is a change with what it costs and why.
type Costed struct {
	Change
	// Actions of this change alone, Special resolved: with a drain where the change of registries.conf is not safe.
	Actions []Action
	// Why names the rule that decided: `rule /etc/containers/policy.json`, `no rule covers it`.
	Why string
	// Effect is what becomes of an account that leaves the config, or EffectNewNodes; "" for all else.
	Effect string
}

// Decision is what a node does for all changes together.
type Decision struct {
	// Actions in order, as the machine-config contract combines them: any Reboot stands alone, None is dropped beside
	// others, nothing is de-duplicated.
	Actions []Action
	// Drain says that pods are moved away first.
	Drain bool
	// Disruption is the highest of all actions, Drain included.
	Disruption Disruption
	// Items is every change with its own cost, in the order of Changes.
	Items []Costed
}
