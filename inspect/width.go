package inspect

import (
	"strings"
	"unicode"
)

// Width is how many columns of a terminal a text takes. Where terminals differ it says the larger number, so that what is
// cut to a width is never wider.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += columns(r)
	}
	return n
}

// columns is the width of one character.
func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r < 0x1100, r >= 0x1e00 && r < 0x2300, r >= 0x2500 && r < 0x2600, r == unicode.ReplacementChar:
		return 1
	}
	return 2
}

// Wrap breaks a text between words into lines of at most so many columns; a word that is longer stays whole.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && Width(line)+1+Width(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
