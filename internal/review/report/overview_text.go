package report

import (
	"fmt"

	"github.com/bunsen-os/bunsen/internal/review"
)

// countsText is such as `2 to add, 1 to change, 0 to remove`.
func countsText(n review.Counts) string {
	return fmt.Sprintf("%s to add, %s to change, %s to remove", thousands(n.Add), thousands(n.Change),
		thousands(n.Remove))
}

// hiddenText says how many items leave out a secret, or is "".
func hiddenText(hidden int) string {
	if hidden == 0 {
		return ""
	}
	return thousands(hidden) + " hidden"
}

// warningText has the position and the message.
func warningText(w review.Warning) string {
	if w.Origin == "" {
		return w.Message
	}
	return w.Origin + ": " + w.Message
}
