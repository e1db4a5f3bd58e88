package policy

// NodeCheck names a check whose result depends on the host alone, so that only the node's daemon can make it. The list is
// closed: all other refusals are decided in this package, from the configs.
type NodeCheck string

// The checks that a node makes itself.
const (
	// CheckAccounts: which users and groups the node has, their numbers, and which of them come with its image.
	CheckAccounts NodeCheck = "accounts"
	// CheckPaths: what is at a path of the node that no config made, and where its links lead.
	CheckPaths NodeCheck = "paths"
	// CheckOwners: who owns the directories and links on the way to a path, and a user's home directory: a user of the node must
	// not lead the daemon to files of another owner.
	CheckOwners NodeCheck = "owners"
	// CheckSystem: which parts of the OS the node can change, and what it was installed with.
	CheckSystem NodeCheck = "system"
)

// OnNode is a refusal that only the node's daemon can decide.
func OnNode(check NodeCheck, field, why string) Refusal {
	return Refusal{Field: field, Why: why, Check: check}
}

// Unreadable refuses a config that cannot be read, or that must not reach a node.
func Unreadable(err error) []Refusal { return []Refusal{{Why: err.Error()}} }
