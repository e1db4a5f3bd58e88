package protocol

import (
	"strings"

	"github.com/bunsen-os/bunsen/api/safetext"
)

// longestLine is how many characters of what somebody wrote are told.
const longestLine = 72

// OneLine keeps what somebody wrote into a commit from being more than a word on a terminal that it is shown on.
func OneLine(text string) string {
	text = safetext.Strip(strings.ToValidUTF8(text, ""))
	if runes := []rune(text); len(runes) > longestLine {
		return string(runes[:longestLine-1]) + "…"
	}
	return text
}
