package report

import "cmp"

// RollbackTarget names the config to which a machine rolls back.
func RollbackTarget(from, to string) string {
	// The old config and the new config are the same in a forced update, and in an update that added withheld secrets.
	if from == to {
		return to + " as it was before"
	}
	return cmp.Or(from, "its first state")
}
