package v1alpha1

import "strings"

// Lengths of the parts of a reason.
const (
	longestReason = 2000 // the protocol's limit of the reason annotation
	longestEnd    = 500  // the length of the end that TruncateReason keeps, which says what to do
)

// TruncateReason returns a text of ReasonAnnotation: valid UTF-8 of at most longestReason bytes, without its middle if
// it is longer. The daemon writes its texts so, and readers read them so, because a compromised node writes any text.
func TruncateReason(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD") // The cluster stores only valid UTF-8.
	if len(reason) > longestReason {
		const middle = " … "
		head, tail := reason[:longestReason-longestEnd-len(middle)], reason[len(reason)-longestEnd:]
		reason = strings.ToValidUTF8(head, "") + middle + strings.ToValidUTF8(tail, "")
	}
	return reason
}
