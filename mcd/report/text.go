package report

import (
	"cmp"
	"strings"
)

// Lengths of the parts of a reason.
const (
	longestReason = 2000 // the protocol's limit of the reason annotation
	longestEnd    = 500  // the length of the end that TruncateReason keeps, which says what to do
)

// TruncateReason returns a reason that the API server accepts: valid UTF-8 of at most longestReason bytes.
// TruncateReason removes the middle.
func TruncateReason(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD") // The cluster stores only valid UTF-8.
	if len(reason) > longestReason {
		const middle = " … "
		head, tail := reason[:longestReason-longestEnd-len(middle)], reason[len(reason)-longestEnd:]
		reason = strings.ToValidUTF8(head, "") + middle + strings.ToValidUTF8(tail, "")
	}
	return reason
}

// RollbackTarget names the config to which a machine rolls back.
func RollbackTarget(from, to string) string {
	// The old config and the new config are the same in a forced update, and in an update that added withheld secrets.
	if from == to {
		return to + " as it was before"
	}
	return cmp.Or(from, "its first state")
}
