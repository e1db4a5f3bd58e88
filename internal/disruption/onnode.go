package disruption

// NodeCheck names a check that only the node's daemon can do, because the result depends on the host. The list of
// checks is complete: this package decides all other refusals from the configs.
type NodeCheck string

// The checks of the daemon.
const (
	// CheckAccounts: which users and groups the node has, their numbers, and which are part of its image.
	CheckAccounts NodeCheck = "accounts"
	// CheckPaths: existing files of the node that no config created, and the targets of its links.
	CheckPaths NodeCheck = "paths"
	// CheckOwners: the owners of a path's parent directories and links, and of home directories. Without this check, a
	// user of the node could make the daemon write to files of another owner.
	CheckOwners NodeCheck = "owners"
	// CheckUnits: which units the node has, and which a user of the node masked. A node does not refuse a config
	// because of a unit that it lacks.
	CheckUnits NodeCheck = "units"
	// CheckSystem: which parts of the OS the node can change, and its installed OS.
	CheckSystem NodeCheck = "system"
	// CheckDisk: what stops the daemon from changing a path at this moment, such as a mount or a full file system.
	CheckDisk NodeCheck = "disk"
)

// OnNode returns a refusal that only the node's daemon can decide.
func OnNode(check NodeCheck, field, why string) Refusal {
	return Refusal{Field: field, Why: why, Check: check}
}

// Unreadable returns the refusal of a config that cannot be decoded or that a node must not receive.
func Unreadable(err error) []Refusal { return []Refusal{{Why: err.Error()}} }
