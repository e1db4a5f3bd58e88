package report

import (
	"fmt"
	"strings"

	"github.com/bunsen-os/bunsen/internal/review"
)

// countsText returns the counts of items as a text: `2 to add, 1 to change, 0 to remove`.
func countsText(n review.Counts) string {
	return fmt.Sprintf("%s to add, %s to change, %s to remove", thousands(n.Add), thousands(n.Change),
		thousands(n.Remove))
}

// hiddenText returns a text that says how many items have hidden contents, and which rules hid them: `2 hidden:
// key-value, private-key`. hiddenText returns "" if no item has hidden contents.
func hiddenText(h *review.HiddenItems) string {
	if h == nil {
		return ""
	}
	return thousands(h.Items) + " hidden: " + strings.Join(h.Rules, ", ")
}

// warningText returns the position and the message of a warning.
func warningText(w review.Warning) string {
	if w.Origin == "" {
		return w.Message
	}
	return w.Origin + ": " + w.Message
}
