package protocol

import (
	"strings"
	"unicode"
)

// longestLine is how many characters of what somebody wrote are told.
const longestLine = 72

// OneLine keeps what somebody wrote into a commit from being more than a word on a terminal that it is shown on.
func OneLine(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")))
	if runes := []rune(text); len(runes) > longestLine {
		return string(runes[:longestLine-1]) + "…"
	}
	return text
}
